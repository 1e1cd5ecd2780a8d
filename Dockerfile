# The images for those who have docker or buildah ("make image" needs neither):
#   docker build --target operator -t paddlejob/operator:dev .
#   docker build --target gate     -t paddlejob/gate:dev .
#   docker build --target runtime  -t paddlejob/runtime:dev .
# deploy/local/images makes the same three; what they hold and how they start stands in both.

FROM debian:12-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends \
      gcc libc6-dev make pkg-config \
      libcurl4-openssl-dev libuv1-dev libjansson-dev libyaml-dev libmicrohttpd-dev \
      libgrpc-dev libprotobuf-c-dev protobuf-c-compiler libxxhash-dev libgnutls28-dev zlib1g-dev libdnnl-dev \
    && rm -rf /var/lib/apt/lists/*
COPY . /src
ARG VERSION=unknown
RUN make -C /src -j"$(nproc)" BUILD=/out VERSION="$VERSION" all \
    && find /out/bin -type f -exec strip {} + \
    && mkdir /out/runtime && cp /out/bin/paddlerun /out/runtime \
    && for d in /src/examples/*/; do p=/out/bin/$(basename "$d"); [ ! -x "$p" ] || cp "$p" /out/runtime; done

FROM debian:12-slim AS operator
RUN apt-get update && apt-get install -y --no-install-recommends \
      libcurl4 libuv1 libjansson4 libyaml-0-2 libmicrohttpd12 \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /out/bin/paddle-operator /manager
USER 65532:65532
ENTRYPOINT ["/manager"]

FROM scratch AS gate
COPY --from=build /out/bin/paddle-gate /paddle-gate
USER 65532:65532
ENTRYPOINT ["/paddle-gate"]

# As root: the volumes of training jobs often want it.  Any user works where a job says so.
FROM debian:12-slim AS runtime
RUN apt-get update && apt-get install -y --no-install-recommends \
      libuv1 libjansson4 libyaml-0-2 libmicrohttpd12 libgnutls30 zlib1g libgrpc29 libprotobuf-c1 libxxhash0 libdnnl2 \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /out/runtime/ /usr/local/bin/
RUN mkdir -m 1777 /workspace
WORKDIR /workspace
ENTRYPOINT ["/usr/local/bin/paddlerun", "exec", "--"]
CMD ["/usr/local/bin/wide_and_deep"]
