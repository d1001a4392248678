# bitsect in a container, for machines on which nothing is to be installed but an engine.
#
# `make appliance` builds it: it gathers the wheels in build/appliance first, so that the build
# itself needs no network. docs/appliance.md says how to run it.

# Any image with Python >= 3.11 and glibc. Name one by its digest to build on the same bytes again.
ARG BASE=python:3.13-slim-trixie


FROM ${BASE} AS builder

COPY build/appliance /wheels

# pip runs from its own wheel: the base need not have it. Bytecode that is checked against no
# clock is the same in every build.
RUN python3 -m venv --without-pip /opt/bitsect \
    && PYTHONPATH="$(echo /wheels/pip-*.whl)" /opt/bitsect/bin/python -m pip install \
        --quiet --disable-pip-version-check --no-cache-dir --no-compile \
        --no-index --find-links=/wheels --require-hashes --requirement=/wheels/requirements.txt \
    && /opt/bitsect/bin/python -m compileall -q --invalidation-mode=unchecked-hash /opt/bitsect/lib


FROM ${BASE}

ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="bitsect" \
      org.opencontainers.image.description="Approves a container by its bits, and finds what changed them after an upgrade." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

COPY --from=builder /opt/bitsect /opt/bitsect

# A new volume takes over the owner of the folder that it is mounted on.
RUN install --directory --owner=65532 --group=65532 /data

ENV PATH=/opt/bitsect/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    HOME=/data \
    BITSECT_DATA=/data/store \
    BITSECT_CACHE=/data/cache \
    PYTHONDONTWRITEBYTECODE=1

USER 65532:65532
WORKDIR /data

ENTRYPOINT ["bitsect"]
CMD ["--help"]
