# Roofmark's dashboard and command line.
#
#   docker build -t roofmark .
#   docker run -p 8765:8765 -v roofmark:/data -e ROOFMARK_PASSWORD=... roofmark
#
# Inside a container Roofmark must listen on every address, so it refuses to start without ROOFMARK_PASSWORD.
# Name further host names in ROOFMARK_ALLOWED_HOSTS when it is reached by anything but localhost. A model server
# on the machine itself is reached with `--add-host host.docker.internal:host-gateway`.

FROM python:3.13-slim AS build
WORKDIR /source
# the versions of requirements.txt; pip checks hashes only when no local project is installed with them
COPY requirements.txt .
RUN python -m venv /opt/roofmark && sed -n 's/ *\\$//; /^[a-z0-9]/p' requirements.txt > /pins.txt
COPY . .
RUN /opt/roofmark/bin/pip install --no-cache-dir --constraint /pins.txt '.[postgres]'

FROM python:3.13-slim
# the pictures of shared pages need a font for Chinese titles
RUN apt-get update && apt-get install --yes --no-install-recommends fonts-wqy-microhei && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/roofmark /opt/roofmark
RUN useradd --system --uid 10001 --user-group roofmark && install -d -o roofmark -g roofmark /data
ENV PATH=/opt/roofmark/bin:$PATH PYTHONUNBUFFERED=1 ROOFMARK_DATA_DIR=/data ROOFMARK_PORT=8765
USER roofmark
VOLUME /data
EXPOSE 8765
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s CMD ["python", "-c", \
    "import os, urllib.request as u; u.urlopen(f'http://127.0.0.1:{os.environ[\"ROOFMARK_PORT\"]}/health', timeout=4)"]
CMD ["roofmark", "serve", "--host", "0.0.0.0"]
