# The images for those who have docker or buildah ("make image" needs neither):
#   docker build --target operator -t paddlejob/operator:dev .
#   docker build --target gate     -t paddlejob/gate:dev .
#   docker build --target runtime  -t paddlejob/runtime:dev .
# For both architectures, "docker buildx build --platform linux/amd64,linux/arm64": programs are cross-compiled, and no
# stage runs what it made, so no emulation is needed.
#
# An image holds programs and the libraries that they load: no shell, no package manager. deploy/local/images makes the
# same three; what they hold and how they start stands in both. `make image-test` builds these for real.
ARG BASE=debian:12-slim

FROM --platform=$BUILDPLATFORM $BASE AS control
ARG TARGETARCH
COPY deploy/image /image
RUN /image/compiler "$TARGETARCH" libcurl4-openssl-dev libuv1-dev libjansson-dev libyaml-dev libmicrohttpd-dev \
      libgnutls28-dev zlib1g-dev
COPY . /src
ARG VERSION=unknown
RUN /image/make "$TARGETARCH" paddle-operator paddle-gate \
    && /image/root "$TARGETARCH" /root/operator /out/bin/paddle-operator:/manager

FROM scratch AS operator
ARG VERSION=unknown
LABEL org.opencontainers.image.title="paddle-operator" \
      org.opencontainers.image.description="Runs PaddleJobs (batch.paddlepaddle.org/v1) on Kubernetes" \
      org.opencontainers.image.version="$VERSION"
COPY --from=control /root/operator/ /
USER 65532:65532
ENTRYPOINT ["/manager"]

# Static: nothing else is in it.
FROM scratch AS gate
ARG VERSION=unknown
LABEL org.opencontainers.image.title="paddle-gate" \
      org.opencontainers.image.description="Holds the containers of a PaddleJob's pod until all addresses are known" \
      org.opencontainers.image.version="$VERSION"
COPY --from=control /out/bin/paddle-gate /paddle-gate
USER 65532:65532
ENTRYPOINT ["/paddle-gate"]

FROM --platform=$BUILDPLATFORM $BASE AS training
ARG TARGETARCH
COPY deploy/image /image
RUN /image/compiler "$TARGETARCH" libuv1-dev libjansson-dev libyaml-dev libmicrohttpd-dev libgnutls28-dev zlib1g-dev \
      libgrpc-dev libprotobuf-c-dev libxxhash-dev libdnnl-dev libjpeg62-turbo-dev protobuf-c-compiler:native
COPY . /src
ARG VERSION=unknown
RUN /image/make "$TARGETARCH" paddlerun paddle-pserver wide_and_deep resnet50 \
    && /image/root "$TARGETARCH" /root/runtime /out/bin/paddlerun:/usr/local/bin/paddlerun \
         /out/bin/paddle-pserver:/usr/local/bin/paddle-pserver \
         /out/bin/wide_and_deep:/usr/local/bin/wide_and_deep \
         /out/bin/resnet50:/usr/local/bin/resnet50 \
    && mkdir -m 1777 /root/runtime/workspace

# As root: the volumes of training jobs often want it.  Any user works where a job says so.
FROM scratch AS runtime
ARG VERSION=unknown
LABEL org.opencontainers.image.title="paddlejob runtime" \
      org.opencontainers.image.description="paddlerun, wide_and_deep and resnet50, for the containers of PaddleJobs" \
      org.opencontainers.image.version="$VERSION"
COPY --from=training /root/runtime/ /
WORKDIR /workspace
ENTRYPOINT ["/usr/local/bin/paddlerun", "exec", "--"]
CMD ["/usr/local/bin/wide_and_deep"]
