# Prometheus and Alertmanager of Debian, with the paths of the public images: a registry need not be there for the tests.
FROM debian:bookworm-slim
RUN apt-get update -q \
 && apt-get install -q -y --no-install-recommends prometheus prometheus-alertmanager \
 && rm -rf /var/lib/apt/lists/* \
 && install -d -o nobody /prometheus /alertmanager
USER nobody
