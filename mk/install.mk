# The demo, images, releases, wheels; make install.

##@ Try
## demo: a local Kubernetes, the operator, one job; CLUSTER=current: your own cluster
demo:
	@deploy/demo up
## demo-down: remove all of the demo
demo-down:
	@deploy/demo down
## pictures: record trainings and, where the demo's cluster is up, kubectl get pdj; draw pictures of README and docs
pictures: all
	@tools/pictures --record
	@tools/dashboard --record

##@ Ship
## image: container images as OCI archives in build/images
image: all
	@deploy/local/images operator gate runtime launcher
## image-test: build the Dockerfile, amd64 and arm64, with buildah on a debootstrap base (root; minutes)
image-test:
	@deploy/image/test
## release: all of a version in build/release, from the commit (root, Debian 12);
##     BASE=IMAGE@sha256:DIGEST, else debootstrap; IMAGES=REGISTRY/NAME
release:
	@tools/release --base "$(BASE)" $(if $(IMAGES),--prefix "$(IMAGES)")
## release-test: two releases, compared: minutes
release-test:
	@tests/run release

## wheel: paddlerun with the launcher, and paddlert with the training library, as wheels in build/wheel
wheel: $(BUILD)/lib/libpaddlert.so.1 $(STATIC) $(STATIC_D)
	@strip --strip-unneeded -o $(BUILD)/gen/libpaddlert.so.1 $<
	@rm -f $(BUILD)/wheel/*.whl
	@python/wheel "$(VERSION)" $(BUILD)/wheel $(BUILD)/gen/libpaddlert.so.1 $(STATIC) $(STATIC_D)

## install: programs, library, header, manual pages and completion below PREFIX (/usr/local)
TO = $(DESTDIR)$(PREFIX)
install: all
	install -D -m 755 -t $(TO)/bin $(addprefix $(BUILD)/bin/,paddle-operator paddlerun paddle-check paddle-pserver)
	ln -sf paddlerun $(TO)/bin/fleetrun
	install -D -m 644 -t $(TO)/lib $(BUILD)/lib/libpaddlert.a $(BUILD)/lib/libpaddlert.so.1
	ln -sf libpaddlert.so.1 $(TO)/lib/libpaddlert.so
	install -D -m 644 -t $(TO)/include/paddlert/runtime runtime/rt.h
	install -D -m 644 -t $(TO)/include/paddlert/common common/err.h
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' runtime/paddlert.pc.in >$(BUILD)/paddlert.pc
	install -D -m 644 -t $(TO)/lib/pkgconfig $(BUILD)/paddlert.pc
	install -D -m 644 -t $(TO)/share/man/man1 docs/man/paddlerun.1
	install -D -m 644 -t $(TO)/share/man/man8 docs/man/paddle-operator.8
	install -D -m 644 -t $(TO)/share/zsh/site-functions $(addprefix docs/completion/_,paddlerun paddle-operator)
	for p in paddlerun paddle-operator; do \
	    install -D -m 644 docs/completion/$$p.bash $(TO)/share/bash-completion/completions/$$p || exit; done
	ln -sf paddlerun $(TO)/share/bash-completion/completions/fleetrun
	tools/manual man $(TO)/share/man

.PHONY: demo demo-down pictures image image-test release release-test wheel install
