# engram and its Python package, for a CPU:  docker build -t engram .
# for NVIDIA GPUs:                           docker build -t engram --build-arg ENGRAM_CUDA=ON .
#   docker run --rm -v "$PWD/runs:/runs" engram train /runs/a --task.name tmaze     (for a GPU: docker run --gpus all ...)
#   docker run --rm -it --entrypoint python3 engram
FROM debian:12
ARG ENGRAM_CUDA=OFF
ENV ENGRAM_CACHE=/opt/engram ENGRAM_CUDA=$ENGRAM_CUDA ENGRAM_PYTHON=ON
COPY . /source
WORKDIR /source
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates python3-venv \
 && tools=$(bash apps/scripts/setup.sh) \
 && "$tools/python3" -m pip install --no-cache-dir . \
 && ln -s "$tools" /opt/engram/bin \
 && rm -rf build /var/lib/apt/lists/*
ENV PATH=/opt/engram/bin:$PATH
WORKDIR /
ENTRYPOINT ["engram"]
