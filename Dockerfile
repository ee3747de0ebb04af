# The HTTP server on a board in a volume; docs/docker.md says how to run it.
FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src src
COPY examples examples
RUN ["pip", "wheel", "--no-cache-dir", "--wheel-dir=/wheels", ".[http]"]

FROM python:3.13-slim
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index /wheels/*.whl \
    && install -d -m 0700 -o 10001 -g 10001 /board
USER 10001:10001
WORKDIR /board
ENV AGENTMESH_BOARD=/board/board.db \
    PYTHONDONTWRITEBYTECODE=1
VOLUME ["/board"]
EXPOSE 8765
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8765/healthz', timeout=3)"]
ENTRYPOINT ["agentmesh"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8765"]
