# The images for those who have docker or buildah ("make image" needs neither):
#   docker build --target operator -t paddlejob/operator:dev .
#   docker build --target gate     -t paddlejob/gate:dev .
#   docker build --target runtime  -t paddlejob/runtime:dev .
#   docker build --target launcher -t paddlejob/launcher:dev .
# For both architectures, "docker buildx build --platform linux/amd64,linux/arm64": programs are cross-compiled, and no
# stage runs what it made, so no emulation is needed.
#
# An image holds programs and the libraries that they load: no shell, no package manager. deploy/local/images makes the
# same four; what they hold and how they start stands in both. `make image-test` builds these for real.
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

FROM --platform=$BUILDPLATFORM $BASE AS launching
ARG TARGETARCH
COPY deploy/image /image
RUN /image/compiler "$TARGETARCH" libuv1-dev libjansson-dev libyaml-dev libmicrohttpd-dev libgnutls28-dev zlib1g-dev \
      libunistring-dev libxxhash-dev
COPY . /src
ARG VERSION=unknown
RUN /image/make "$TARGETARCH" paddlerun-static

# Static: for COPY --from, into whatever image has the training framework.
FROM scratch AS launcher
ARG VERSION=unknown
LABEL org.opencontainers.image.title="paddlejob launcher" \
      org.opencontainers.image.description="paddlerun, to be copied into images with a training framework" \
      org.opencontainers.image.version="$VERSION"
COPY --from=launching /out/bin/paddlerun-static /paddlerun
USER 65532:65532
ENTRYPOINT ["/paddlerun"]

FROM --platform=$BUILDPLATFORM $BASE AS training
ARG TARGETARCH
COPY deploy/image /image
RUN /image/compiler "$TARGETARCH" libuv1-dev libjansson-dev libyaml-dev libmicrohttpd-dev libgnutls28-dev zlib1g-dev \
      libgrpc-dev libprotobuf-c-dev libxxhash-dev librocksdb-dev libdnnl-dev libjpeg62-turbo-dev \
      protobuf-c-compiler:native
COPY . /src
ARG VERSION=unknown
RUN /image/make "$TARGETARCH" paddlerun paddle-check paddle-pserver logistic logistic-data wide_and_deep deepfm ctr_dnn word2vec recommendation resnet50 \
    && /image/root "$TARGETARCH" /root/runtime /out/bin/paddlerun:/usr/local/bin/paddlerun \
         /out/bin/paddle-pserver:/usr/local/bin/paddle-pserver \
         /out/bin/paddle-check:/usr/local/bin/paddle-check \
         /out/bin/logistic:/usr/local/bin/logistic \
         /out/bin/logistic-data:/usr/local/bin/logistic-data \
         /out/bin/wide_and_deep:/usr/local/bin/wide_and_deep \
         /out/bin/deepfm:/usr/local/bin/deepfm \
         /out/bin/ctr_dnn:/usr/local/bin/ctr_dnn \
         /out/bin/word2vec:/usr/local/bin/word2vec \
         /out/bin/recommendation:/usr/local/bin/recommendation \
         /out/bin/resnet50:/usr/local/bin/resnet50 librocksdb.so.7.8 \
    && mkdir -m 1777 /root/runtime/workspace

# As nobody special: volumes belong to the group of that number (fsGroup), or a job says another user.
FROM scratch AS runtime
ARG VERSION=unknown
LABEL org.opencontainers.image.title="paddlejob runtime" \
      org.opencontainers.image.description="paddlerun and the programs of examples, for the containers of PaddleJobs" \
      org.opencontainers.image.version="$VERSION"
COPY --from=training /root/runtime/ /
USER 65532:65532
WORKDIR /workspace
ENTRYPOINT ["/usr/local/bin/paddlerun", "exec", "--"]
CMD ["/usr/local/bin/wide_and_deep"]
