package probe

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/termguard/termguard/probe/report"
)

// maxAnswer is the limit of the kubelet's CRI client (k8s.io/cri-client/pkg/remote_runtime.go, maxMsgSize).
const maxAnswer = 16 << 20

// inspectRuntime calls the CRI methods that the kubelet depends on.
func (l *inspection) inspectRuntime(ctx context.Context) {
	call := l.callRuntime
	if call == nil {
		c := newCRI(l.nodePath(l.Runtime))
		defer c.client.CloseIdleConnections()
		call = c.call
	}
	for _, method := range []string{"Version", "Status", "ListPodSandbox"} {
		callCtx, cancel := context.WithTimeout(ctx, l.Timeout)
		err := call(callCtx, method)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			l.report.Add(report.Finding{
				Cause: report.Runtime, Certainty: report.May,
				Evidence: fmt.Sprintf("the container runtime at %s does not answer %s: %v", l.Runtime, method, err),
				Remedy:   "systemctl restart containerd",
			})
			return
		}
	}
}

// cri speaks gRPC over HTTP/2 itself, for methods of runtime.v1.RuntimeService (k8s.io/cri-api) with an empty
// request: the gRPC library would add html/template and more to a binary that starts for every check.
type cri struct{ client http.Client }

func newCRI(socket string) *cri {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	var dialer net.Dialer
	return &cri{http.Client{Transport: &http.Transport{
		Protocols: &protocols,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", socket)
		},
	}}}
}

// call checks that the answer is complete, not its content.
func (c *cri) call(ctx context.Context, method string) error {
	// One byte for compression, four for the length.
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/runtime.v1.RuntimeService/"+method, bytes.NewReader(make([]byte, 5)))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/grpc")
	request.Header.Set("TE", "trailers")
	response, err := c.client.Do(request)
	if err != nil {
		return callError(ctx, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return callError(ctx, err)
	}
	status := response.Trailer.Get("Grpc-Status") + response.Header.Get("Grpc-Status") // an error may come without a body
	switch {
	case len(body) > maxAnswer:
		return fmt.Errorf("its answer has more than %d bytes", maxAnswer)
	case response.StatusCode != http.StatusOK:
		return errors.New(response.Status)
	case status != "0":
		return fmt.Errorf("gRPC status %s: %s", status, response.Trailer.Get("Grpc-Message")+response.Header.Get("Grpc-Message"))
	case len(body) < 5 || int(binary.BigEndian.Uint32(body[1:5])) != len(body)-5:
		return errors.New("its answer is cut off")
	}
	return nil
}

func callError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errTimeout
	}
	if netErr, ok := errors.AsType[*url.Error](err); ok {
		return netErr.Err // the URL is made up
	}
	return err
}
