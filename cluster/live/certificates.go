package live

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/refusals"
)

// Stored returns a Try that connects to no webhook: it compares caBundle with tls.crt, or with ca.crt that
// belongs into it. Of a Secret it keeps nothing.
func Stored(config *rest.Config, now func() time.Time) (cluster.Try, error) {
	client, err := dynamic.NewForConfig(unhurried(config))
	if err != nil {
		return nil, fmt.Errorf("connect for certificates: %w", err)
	}
	return func(ctx context.Context, b cluster.Backend) (t cluster.Handshake) {
		for _, source := range b.Sources {
			if t = compare(ctx, client, b, source, now()); t.Unseen == "" {
				break
			}
		}
		return t
	}, nil
}

func compare(ctx context.Context, client dynamic.Interface, b cluster.Backend, source refusals.Source, now time.Time) cluster.Handshake {
	object, err := client.Resource(source.GroupVersionResource).Namespace(source.Namespace).Get(ctx, source.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return cluster.Handshake{Unseen: "forbidden"}
	case err != nil:
		return cluster.Handshake{Unseen: err.Error()}
	}
	if name, names, _ := unstructured.NestedString(object.Object, "spec", "secretName"); names {
		return compare(ctx, client, b, source.Secret(name), now)
	}
	data, _, _ := unstructured.NestedStringMap(object.Object, "data")
	return b.Compare(source, decoded(data["tls.crt"]), decoded(data["ca.crt"]), now)
}

// decoded returns the text of a Secret, or a ConfigMap's as it is.
func decoded(text string) []byte {
	if data, err := base64.StdEncoding.DecodeString(text); err == nil {
		return data
	}
	return []byte(text)
}
