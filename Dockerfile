# tidecast in a container, with the server as entry point; docs/cluster.md tells how to run it.
FROM python:3.12-slim

# Hadoop's client asks the system for its user's name.
RUN useradd --create-home tidecast && mkdir /data && chown tidecast /data

# Java 21 is one of the requirements; the Spark connectors are fetched as they are for a checkout.
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 TIDECAST_CACHE=/opt/tidecast/cache
WORKDIR /opt/tidecast
COPY requirements.lock ./
RUN pip install --require-hashes --requirement requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip install --no-deps . \
    && python -c "from tidecast.runtime import fetch_jars, find_java; find_java(); fetch_jars()" \
    && chown -R tidecast "$TIDECAST_CACHE"

USER tidecast
WORKDIR /data
VOLUME /data
EXPOSE 8300
ENTRYPOINT ["tidecast", "server"]
CMD ["--help"]
