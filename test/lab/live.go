package lab

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"
)

// Controller removes a finalizer from objects that are being deleted, as the
// software that owns the finalizer does when it has cleaned up, until ctx ends.
// It runs with the rights of a service account.
func (l *Lab) Controller(ctx context.Context, namespace, account, finalizer string, gvr schema.GroupVersionResource) error {
	config, err := l.ServiceAccountConfig(ctx, namespace, account)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	objects := client.Resource(gvr)
	// The first list tells whether the service account may do this at all.
	if _, err := objects.List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
		return fmt.Errorf("controller for %s: %w", finalizer, err)
	}
	go func() {
		ticker := time.NewTicker(200 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			list, err := objects.List(ctx, metav1.ListOptions{})
			if err != nil {
				continue
			}
			for _, item := range list.Items {
				if item.GetDeletionTimestamp() != nil && slices.Contains(item.GetFinalizers(), finalizer) {
					_ = release(ctx, objects.Namespace(item.GetNamespace()), item.GetName(), finalizer) // the next round tries again
				}
			}
		}
	}()
	return nil
}

func release(ctx context.Context, objects dynamic.ResourceInterface, name, finalizer string) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		obj, err := objects.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		obj.SetFinalizers(slices.DeleteFunc(obj.GetFinalizers(), func(f string) bool { return f == finalizer }))
		_, err = objects.Update(ctx, obj, metav1.UpdateOptions{})
		return err
	})
}

// Serve answers HTTPS on port 443 of a Service's ClusterIP until ctx ends, and
// returns the certificate authority for its caBundle.
func (l *Lab) Serve(ctx context.Context, namespace, service string, handler http.Handler) (caBundle []byte, err error) {
	address, err := l.ClusterIP(ctx, namespace, service)
	if err != nil {
		return nil, err
	}
	certPEM, keyPEM, err := l.clients.issue(service, nil, []string{service + "." + namespace + ".svc"}, address)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", address+":443")
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: handler, TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}}
	go server.ServeTLS(listener, "", "") //nolint:errcheck // ends with ctx
	context.AfterFunc(ctx, func() { server.Close() })
	return l.clients.pem(), nil
}

// Review is a webhook that answers every review with a decision.
func Review(decide func(request map[string]any) (allowed bool, message string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review map[string]any
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		request, _ := review["request"].(map[string]any)
		allowed, message := decide(request)
		review["response"] = map[string]any{"uid": request["uid"], "allowed": allowed, "status": map[string]any{"message": message}}
		delete(review, "request")
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(review) //nolint:errcheck // the API server is gone: nobody to tell
	})
}

// ExtensionAPI serves the discovery of one API group with one namespaced
// resource that has no objects: the least that makes an APIService available.
func ExtensionAPI(group, version, resource, kind string, verbs ...string) http.Handler {
	list := metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: group + "/" + version,
		APIResources: []metav1.APIResource{{Name: resource, Namespaced: true, Kind: kind, Verbs: verbs}},
	}
	gv := metav1.GroupVersionForDiscovery{GroupVersion: list.GroupVersion, Version: version}
	apiGroup := metav1.APIGroup{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroup"}, Name: group, Versions: []metav1.GroupVersionForDiscovery{gv}, PreferredVersion: gv}
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(v) //nolint:errcheck // the API server is gone: nobody to tell
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := strings.TrimSuffix(r.URL.Path, "/"); {
		case path == "/apis":
			answer(w, metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}, Groups: []metav1.APIGroup{apiGroup}})
		case path == "/apis/"+group:
			answer(w, apiGroup)
		case path == "/apis/"+list.GroupVersion:
			answer(w, list)
		case strings.HasSuffix(path, "/"+resource):
			answer(w, unstructured.UnstructuredList{Object: map[string]any{"apiVersion": list.GroupVersion, "kind": kind + "List", "metadata": map[string]any{"resourceVersion": "1"}, "items": []any{}}}.Object)
		default:
			http.NotFound(w, r)
		}
	})
}
