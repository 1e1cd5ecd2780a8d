# shellcheck shell=sh
# Shared by the scripts of this folder, which run inside the Dockerfile's build stages; sourced, never run.
set -eu

# triplet ARCH: GNU's name of what Docker and Debian call amd64 or arm64.
triplet() {
    case $1 in
        amd64) echo x86_64-linux-gnu ;;
        arm64) echo aarch64-linux-gnu ;;
        *) echo "error: architecture '$1': expected amd64 or arm64" >&2; return 1 ;;
    esac
}
