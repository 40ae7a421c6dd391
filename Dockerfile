# Linted, not built, in CI: docker build --build-arg COMMIT=$(git rev-parse HEAD) -t termguard .
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev COMMIT=
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION} -X main.commit=${COMMIT}" -o /out/ ./cmd/termguard ./cmd/termguard-probe

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /out/ /
USER 65532:65532
EXPOSE 9443 8081
ENTRYPOINT ["/termguard"]
