package scenario

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/kubernetes"
)

type Calls struct {
	N          int
	FailedOpen int           // without an answer, and the request was allowed
	Took       time.Duration // that requests waited for them
}

func (c Calls) Since(before Calls) Calls {
	return Calls{c.N - before.N, c.FailedOpen - before.FailedOpen, c.Took - before.Took}
}

func (c Calls) Mean() time.Duration { return c.Took / time.Duration(max(1, c.N)) }

// Metrics returns the API server's, by name.
func Metrics(ctx context.Context, client kubernetes.Interface) (map[string]*dto.MetricFamily, error) {
	text, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the API server's metrics: %w", err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("read the API server's metrics: %w", err)
	}
	return families, nil
}

// CallsOf counts the calls of webhooks whose names end in suffix (k8s.io/apiserver/pkg/admission/metrics).
func CallsOf(ctx context.Context, client kubernetes.Interface, suffix string) (c Calls, err error) {
	families, err := Metrics(ctx, client)
	if err != nil {
		return c, err
	}
	of := func(name string, add func(*dto.Metric)) {
		for _, m := range families[name].GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "name" && strings.HasSuffix(label.GetValue(), suffix) {
					add(m)
				}
			}
		}
	}
	of("apiserver_admission_webhook_admission_duration_seconds", func(m *dto.Metric) {
		c.N += int(m.GetHistogram().GetSampleCount())
		c.Took += time.Duration(m.GetHistogram().GetSampleSum() * float64(time.Second))
	})
	of("apiserver_admission_webhook_fail_open_count", func(m *dto.Metric) { c.FailedOpen += int(m.GetCounter().GetValue()) })
	return c, nil
}
