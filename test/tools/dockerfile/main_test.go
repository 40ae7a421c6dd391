package main

import (
	"strings"
	"testing"
)

func TestProblems(t *testing.T) {
	const good = "FROM golang:1.26 AS build\nRUN go build -o /x .\n\nFROM gcr.io/distroless/static-debian12:nonroot\nCOPY --from=build /x /x\nUSER 65532:65532\nENTRYPOINT [\"/x\"]\n"
	for _, tt := range []struct{ reason, from, to, want string }{
		{reason: "nothing wrong"},
		{"root", "USER 65532:65532", "USER 0", `runs as "0"`},
		{"no user", "USER 65532:65532\n", "", `runs as ""`},
		{"a shell in the image", "gcr.io/distroless/static-debian12:nonroot", "debian:12", "use a distroless image"},
		{"a base that moves", "golang:1.26", "golang", "has no version"},
		{"a command that a shell would run, which does not pass TERM on", `ENTRYPOINT ["/x"]`, "ENTRYPOINT /x", "does not pass TERM on"},
		{"an unknown instruction", "COPY", "COPPY", "unknown instruction"},
	} {
		got := strings.Join(problems([]byte(strings.Replace(good, tt.from, tt.to, 1))), "\n")
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.reason, got, tt.want)
		}
	}
}
