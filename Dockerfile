# tag2box on a CPU, as nobody in particular: `make image`, then docker run --rm tag2box --help
# It holds the wheel of `make build`, and the packages of requirements/serve.txt by their hashes.
FROM python:3.13-slim AS install
COPY requirements/serve.txt /tmp/
RUN python -m venv /opt/tag2box \
    && /opt/tag2box/bin/pip install --no-cache-dir --no-compile --no-deps --only-binary :all: --require-hashes -r /tmp/serve.txt
COPY dist/*.whl /tmp/
RUN /opt/tag2box/bin/pip install --no-cache-dir --no-compile --no-deps --no-index /tmp/*.whl \
    && /opt/tag2box/bin/pip check \
    && /opt/tag2box/bin/pip uninstall --yes pip

FROM python:3.13-slim
COPY --from=install /opt/tag2box /opt/tag2box
# Networks and compiled kernels: any user may write there, so that `docker run --user` works.
RUN install --directory --mode=1777 /cache
ENV PATH=/opt/tag2box/bin:$PATH HOME=/cache TAG2BOX_CACHE=/cache/tag2box NUMBA_CACHE_DIR=/cache/numba PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /data
VOLUME /cache
EXPOSE 8080
ENTRYPOINT ["tag2box"]
CMD ["--help"]
