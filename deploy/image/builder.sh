# shellcheck shell=bash
# shellcheck disable=SC2034
# What test and tools/release share: buildah with a storage of its own, and Debian made by debootstrap as a base where no
# registry is reachable.  Sourced, never run, after deploy/local/lib.sh, with the storage's directory.
builder_dir=${1:?}
[[ $(id -u) == 0 ]] || die "building images needs root"
need_commands buildah=buildah jq=jq
mkdir -p "$builder_dir/log"
buildah=(buildah --root "$builder_dir/storage" --runroot "$builder_dir/run")
declare -A here=([x86_64]=amd64 [aarch64]=arm64)

# debian_base: localhost/debian:12, made once.
debian_base() {
  local c
  ! "${buildah[@]}" inspect --type image localhost/debian:12 >/dev/null 2>&1 || return 0
  need_commands debootstrap=debootstrap
  [[ -x $builder_dir/base/usr/bin/apt-get && ! -d $builder_dir/base/debootstrap ]] ||
    busy "debootstrap" "$builder_dir/log/debootstrap" debootstrap --variant=minbase bookworm "$builder_dir/base"
  c=$("${buildah[@]}" from scratch)
  "${buildah[@]}" add -q "$c" "$builder_dir/base" / >/dev/null
  "${buildah[@]}" commit -q --rm "$c" localhost/debian:12 >/dev/null
}

# build_image BASE TARGET ARCH VERSION TAG argument...: of the Dockerfile in this directory.
build_image() {
  # BUILDPLATFORM: buildah of Debian 12 does not know it by itself.
  busy "building $2/$3" "$builder_dir/log/$2-$3" "${buildah[@]}" bud --layers --isolation chroot --build-arg "BASE=$1" \
    --build-arg "BUILDPLATFORM=linux/${here[$(uname -m)]}" --build-arg "VERSION=$4" --platform "linux/$3" -t "$5" "${@:6}"
}
