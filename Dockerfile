# The image of the companion: its controller, and the agent that Jobs run. One
# static binary, so that it also runs when copied into a server's image. What it builds on is named by
# digest: a tag may be another image tomorrow.
# Go 1.26.6.
FROM --platform=$BUILDPLATFORM golang:1.26@sha256:640a234f4bea3e399c056b7b8f9c667c4939befae8db2f14e9785e16eccd4205 AS build
WORKDIR /src

# Settings of Go, for those who build behind a proxy of their own.
ARG GOPROXY
ARG GOSUMDB
ARG GOFLAGS

# Modules change less often than the code.
COPY go.mod go.sum ./
RUN go mod download

COPY apis apis
COPY controller controller
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=dev
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -ldflags="-s -w -X main.version=$VERSION" -o /controller ./controller

FROM gcr.io/distroless/static:nonroot@sha256:963fa6c544fe5ce420f1f54fb88b6fb01479f054c8056d0f74cc2c6000df5240
ARG VERSION=dev
LABEL org.opencontainers.image.title="crossplane-mysql" \
      org.opencontainers.image.description="Backs up, restores and watches over the databases of crossplane-mysql" \
      org.opencontainers.image.source="https://github.com/crossplane-mysql/crossplane-mysql" \
      org.opencontainers.image.version="$VERSION"
COPY --from=build /controller /controller
# Numeric, because the kubelet cannot look names up for runAsNonRoot.
USER 65532:65532
ENTRYPOINT ["/controller"]
