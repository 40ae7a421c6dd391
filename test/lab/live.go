package lab

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	coordinationv1client "k8s.io/client-go/applyconfigurations/coordination/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
)

// Controller removes a finalizer from terminating objects until ctx ends, after all of cleaning, with the
// rights of a service account, and only while pods run under it, if any do.
func (l *Lab) Controller(ctx context.Context, namespace, account, finalizer string, gvr schema.GroupVersionResource, cleaning ...Cleaning) error {
	config, err := l.ServiceAccountConfig(ctx, namespace, account)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	objects := client.Resource(gvr)
	// An authorizer sees a new binding late.
	var denied error
	err = l.Await(ctx, time.Minute, "the rights of "+namespace+"/"+account, func(context.Context) (bool, error) {
		_, denied = objects.List(ctx, metav1.ListOptions{Limit: 1})
		return !apierrors.IsForbidden(denied), nil
	})
	if denied != nil {
		return fmt.Errorf("controller for %s: %w", finalizer, denied)
	}
	if err != nil {
		return err
	}
	admin, err := l.Client()
	if err != nil {
		return err
	}
	// Watches are the administrator's, rounds the service account's.
	changed := newSignal()
	pods, err := l.informed(ctx, podResource, namespace, metav1.ListOptions{}, changed.raise)
	if err != nil {
		return err
	}
	watched, err := l.informed(ctx, gvr, "", metav1.ListOptions{}, changed.raise)
	if err != nil {
		return err
	}
	held := func(o unstructured.Unstructured) bool {
		return o.GetDeletionTimestamp() != nil && slices.Contains(o.GetFinalizers(), finalizer)
	}
	ran := false // whether a pod under the service account was seen
	noted := func() {
		ran = ran || slices.ContainsFunc(pods.objects(), func(o unstructured.Unstructured) bool {
			under, _, _ := unstructured.NestedString(o.Object, "spec", "serviceAccountName")
			return under == account && o.GetDeletionTimestamp() == nil
		})
	}
	runs := func() (bool, error) {
		list, err := admin.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for _, pod := range list.Items {
			if pod.Spec.ServiceAccountName == account && pod.DeletionTimestamp == nil {
				ran = true
				return true, nil
			}
		}
		return !ran, nil
	}
	pods.await(ctx)
	go changed.each(ctx, 200*time.Millisecond, func() (done bool) {
		noted()
		if !slices.ContainsFunc(watched.objects(), held) {
			return true
		}
		list, err := objects.List(ctx, metav1.ListOptions{})
		if err != nil {
			return false
		}
		items := slices.DeleteFunc(list.Items, func(o unstructured.Unstructured) bool { return !held(o) })
		if len(items) == 0 {
			return true
		}
		// This order leaves alone an object deleted after the last pod.
		if up, err := runs(); err != nil || !up {
			return err == nil
		}
		done = true
		for _, item := range items {
			if slices.ContainsFunc(cleaning, func(clean Cleaning) bool { return clean(ctx, client, item) != nil }) ||
				release(ctx, objects.Namespace(item.GetNamespace()), item.GetName(), finalizer) != nil {
				done = false // the next round retries
			}
		}
		return done
	})
	return nil
}

// Elect keeps a lease for a pod until ctx ends, and returns once the pod holds it.
func (l *Lab) Elect(ctx context.Context, namespace, account, lease string) error {
	admin, err := l.Client()
	if err != nil {
		return err
	}
	hold := func(ctx context.Context) error {
		pods, err := admin.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		i := slices.IndexFunc(pods.Items, func(pod corev1.Pod) bool {
			return pod.Spec.ServiceAccountName == account && pod.DeletionTimestamp == nil
		})
		if i < 0 {
			return fmt.Errorf("no pod runs under %s/%s", namespace, account)
		}
		spec := coordinationv1client.LeaseSpec().WithHolderIdentity(pods.Items[i].Name + "_1").WithLeaseDurationSeconds(15).WithRenewTime(metav1.NowMicro())
		_, err = admin.CoordinationV1().Leases(namespace).Apply(ctx, coordinationv1client.Lease(lease, namespace).WithSpec(spec), metav1.ApplyOptions{FieldManager: account, Force: true})
		return err
	}
	if err := hold(ctx); err != nil {
		return err
	}
	go every(ctx, 5*time.Second, func() { _ = hold(ctx) }) // the next round retries
	return nil
}

// Tell writes Events about a resource's objects until ctx ends, like a failing controller, and returns once
// they have repeated.
func (l *Lab) Tell(ctx context.Context, namespace, account, reason string, gvr schema.GroupVersionResource) error {
	config, err := l.ServiceAccountConfig(ctx, namespace, account)
	if err != nil {
		return err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: client.CoreV1().Events("")})
	recorder := broadcaster.NewRecorder(clientscheme.Scheme, corev1.EventSource{Component: account})
	go every(ctx, 5*time.Second, func() {
		list, err := objects.Resource(gvr).List(ctx, metav1.ListOptions{})
		if err != nil {
			return // the next round retries
		}
		for i := range list.Items {
			recorder.Event(&list.Items[i], corev1.EventTypeWarning, reason, "the backend refuses the credentials")
		}
	})
	admin, err := l.Client()
	if err != nil {
		return err
	}
	return l.Await(ctx, 3*time.Minute, "Events that repeat", func(ctx context.Context) (bool, error) {
		list, err := admin.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "reason=" + reason + ",source=" + account})
		return err == nil && slices.ContainsFunc(list.Items, func(e corev1.Event) bool { return e.Count > 8 }), nil
	})
}

// Cleaning precedes the removal of a finalizer, retried on failure.
type Cleaning func(ctx context.Context, client dynamic.Interface, object unstructured.Unstructured) error

func DeleteConfigMap(name string) Cleaning {
	return func(ctx context.Context, client dynamic.Interface, object unstructured.Unstructured) error {
		err := client.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(object.GetNamespace()).Delete(ctx, name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
}

func CreateSecret(name string) Cleaning {
	return func(ctx context.Context, client dynamic.Interface, object unstructured.Unstructured) error {
		secret := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name}}}
		_, err := client.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(object.GetNamespace()).Create(ctx, secret, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}
}

func ReadSecret(name string) Cleaning {
	return func(ctx context.Context, client dynamic.Interface, object unstructured.Unstructured) error {
		_, err := client.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(object.GetNamespace()).Get(ctx, name, metav1.GetOptions{})
		return err
	}
}

// ReadNamed reads the object named at a path of fields, in the namespace beside it, if any.
func ReadNamed(gvr schema.GroupVersionResource, path ...string) Cleaning {
	return func(ctx context.Context, client dynamic.Interface, object unstructured.Unstructured) error {
		name, _, err := unstructured.NestedString(object.Object, path...)
		if err != nil {
			return err
		}
		in, _, err := unstructured.NestedString(object.Object, append(path[:len(path)-1:len(path)-1], "namespace")...)
		if err != nil {
			return err
		}
		_, err = client.Resource(gvr).Namespace(in).Get(ctx, name, metav1.GetOptions{})
		return err
	}
}

// Drain evicts the pods of the node at a path and waits. After the object's spec.terminationGracePeriod it
// deletes them, like Karpenter.
func Drain(path string) Cleaning {
	return func(ctx context.Context, client dynamic.Interface, object unstructured.Unstructured) error {
		node, _, err := unstructured.NestedString(object.Object, strings.Split(path, ".")...)
		if err != nil {
			return err
		}
		pods := client.Resource(corev1.SchemeGroupVersion.WithResource("pods"))
		list, err := pods.List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
		if err != nil {
			return err
		}
		patience, _, err := unstructured.NestedString(object.Object, "spec", "terminationGracePeriod")
		if err != nil {
			return err
		}
		bound, err := time.ParseDuration(cmp.Or(patience, "1000h"))
		if err != nil {
			return err
		}
		for _, pod := range list.Items {
			if time.Since(object.GetDeletionTimestamp().Time) > bound {
				if err := pods.Namespace(pod.GetNamespace()).Delete(ctx, pod.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
					return err
				}
				continue
			}
			eviction := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "policy/v1", "kind": "Eviction", "metadata": map[string]any{"name": pod.GetName(), "namespace": pod.GetNamespace()},
			}}
			if _, err := pods.Namespace(pod.GetNamespace()).Create(ctx, eviction, metav1.CreateOptions{}, "eviction"); err != nil {
				return err
			}
		}
		if len(list.Items) > 0 {
			return fmt.Errorf("%d pods are on node %s", len(list.Items), node)
		}
		return nil
	}
}

// Take counts from the object's deletion, like a wait for a cloud provider.
func Take(long time.Duration) Cleaning {
	return func(_ context.Context, _ dynamic.Interface, object unstructured.Unstructured) error {
		if left := long - time.Since(object.GetDeletionTimestamp().Time); left > 0 {
			return fmt.Errorf("%s is not cleaned up for another %s", object.GetName(), left)
		}
		return nil
	}
}

// WaitForReferrers waits until no object names this one at a path of fields.
func WaitForReferrers(gvr schema.GroupVersionResource, path ...string) Cleaning {
	return func(ctx context.Context, client dynamic.Interface, object unstructured.Unstructured) error {
		list, err := client.Resource(gvr).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, other := range list.Items {
			if name, _, _ := unstructured.NestedString(other.Object, path...); name == object.GetName() {
				return fmt.Errorf("%s %s/%s refers to it", gvr.Resource, other.GetNamespace(), other.GetName())
			}
		}
		return nil
	}
}

func every(ctx context.Context, interval time.Duration, f func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			f()
		}
	}
}

type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) raise() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// seldom is for state that is not watched.
const seldom = 5 * time.Second

// each calls f at once and after each change, at least pause apart, and again while f returns false.
func (s signal) each(ctx context.Context, pause time.Duration, f func() (done bool)) {
	for {
		limit := seldom
		if !f() {
			limit = pause
		}
		paused, late := time.After(pause), time.After(limit)
		select {
		case <-ctx.Done():
			return
		case <-paused:
		}
		select {
		case <-ctx.Done():
			return
		case <-s:
		case <-late:
		}
	}
}

var (
	podResource        = corev1.SchemeGroupVersion.WithResource("pods")
	deploymentResource = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	sliceResource      = discoveryv1.SchemeGroupVersion.WithResource("endpointslices")
)

type informer struct {
	cache.Store
	changed func()
	once    sync.Once
	ready   chan struct{} // closed once all objects are listed
}

// informed watches as the administrator, in all namespaces if namespace is "". While the resource is not
// served, it keeps the last objects and retries each second.
func (l *Lab) informed(ctx context.Context, gvr schema.GroupVersionResource, namespace string, selected metav1.ListOptions, changed func()) (*informer, error) {
	client, err := dynamic.NewForConfig(l.config)
	if err != nil {
		return nil, err
	}
	objects := client.Resource(gvr).Namespace(namespace)
	choose := func(o metav1.ListOptions) metav1.ListOptions {
		o.LabelSelector, o.FieldSelector = selected.LabelSelector, selected.FieldSelector
		return o
	}
	i := &informer{Store: cache.NewStore(cache.MetaNamespaceKeyFunc), changed: changed, ready: make(chan struct{})}
	reflector := cache.NewReflectorWithOptions(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return objects.List(ctx, choose(o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return objects.Watch(ctx, choose(o))
		},
	}, &unstructured.Unstructured{}, i, cache.ReflectorOptions{
		Backoff: &wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Steps: 10, Cap: time.Second},
	})
	go reflector.RunWithContext(klog.NewContext(ctx, klog.Logger{})) // a Logger that logs nothing
	return i, nil
}

func (i *informer) Add(o any) error {
	defer i.changed()
	return i.Store.Add(o)
}

func (i *informer) Update(o any) error {
	defer i.changed()
	return i.Store.Update(o)
}

func (i *informer) Delete(o any) error {
	defer i.changed()
	return i.Store.Delete(o)
}

// Replace implements cache.Store.
func (i *informer) Replace(list []any, version string) error {
	defer i.changed()
	defer i.once.Do(func() { close(i.ready) })
	return i.Store.Replace(list, version)
}

// A resource that is not served is never listed.
func (i *informer) await(ctx context.Context) {
	select {
	case <-i.ready:
	case <-ctx.Done():
	case <-time.After(30 * time.Second):
	}
}

// objects are shared: read-only.
func (i *informer) objects() (all []unstructured.Unstructured) {
	for _, o := range i.List() {
		all = append(all, *o.(*unstructured.Unstructured))
	}
	return all
}

func typed[T any](i *informer) ([]T, error) {
	objects := i.objects()
	all := make([]T, len(objects))
	for n, o := range objects {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &all[n]); err != nil {
			return nil, err
		}
	}
	return all, nil
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

// Serve is HTTPS on port 443 of a Service's ClusterIP. CABundle has the returned authority even before.
func (l *Lab) Serve(ctx context.Context, namespace, service string, handler http.Handler) (caBundle []byte, err error) {
	address, pair, err := l.serving(ctx, namespace, service)
	if err != nil {
		return nil, err
	}
	if err := l.serve(ctx, address, pair, handler); err != nil {
		return nil, fmt.Errorf("serve Service %s/%s: %w", namespace, service, err)
	}
	return l.CABundle(), nil
}

// ServeEndpoints is Serve while an endpoint is ready or, if all are terminating, serving (KEP-1669), as
// behind kube-proxy. It closes connections with the last endpoint, and returns once it listens, within a
// minute.
func (l *Lab) ServeEndpoints(ctx context.Context, namespace, service string, handler http.Handler) error {
	address, pair, err := l.serving(ctx, namespace, service)
	if err != nil {
		return err
	}
	changed := newSignal()
	watched, err := l.informed(ctx, sliceResource, namespace, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service}, changed.raise)
	if err != nil {
		return err
	}
	listening := func() bool {
		endpointSlices, err := typed[discoveryv1.EndpointSlice](watched)
		if err != nil {
			return true // this does not concern the backend
		}
		for _, slice := range endpointSlices {
			for _, e := range slice.Endpoints {
				if c := e.Conditions; c.Ready == nil || *c.Ready || c.Serving != nil && *c.Serving {
					return true
				}
			}
		}
		return false
	}
	var hangUp context.CancelFunc
	update := func() error {
		switch up := listening(); {
		case up && hangUp == nil:
			serving, cancel := context.WithCancel(ctx)
			if err := l.serve(serving, address, pair, handler); err != nil {
				cancel()
				return err
			}
			hangUp = cancel
		case !up && hangUp != nil:
			hangUp()
			hangUp = nil
		}
		return nil
	}
	err = l.Await(ctx, time.Minute, "an endpoint of Service "+namespace+"/"+service, func(context.Context) (bool, error) {
		err := update()
		return hangUp != nil, err
	})
	if err != nil {
		return err
	}
	go changed.each(ctx, 20*time.Millisecond, func() (done bool) {
		return update() == nil
	})
	return nil
}

func (l *Lab) serving(ctx context.Context, namespace, service string) (address string, pair tls.Certificate, err error) {
	if address, err = l.ClusterIP(ctx, namespace, service); err != nil {
		return "", pair, err
	}
	certPEM, keyPEM, err := l.clients.Issue(service, nil, serviceNames(namespace, service), address)
	if err != nil {
		return "", pair, err
	}
	pair, err = tls.X509KeyPair(certPEM, keyPEM)
	return address, pair, err
}

func (l *Lab) serve(ctx context.Context, address string, pair tls.Certificate, handler http.Handler) error {
	var listener net.Listener
	err := l.Await(ctx, 10*time.Second, "port 443 of "+address, func(ctx context.Context) (bool, error) {
		var err error
		listener, err = new(net.ListenConfig).Listen(ctx, "tcp", address+":443")
		if errors.Is(err, syscall.EADDRINUSE) {
			return false, nil // the previous listener is closing
		}
		return err == nil, err
	})
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:   handler,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		ErrorLog:  log.New(io.Discard, "", 0), // the API server may close connections at any time
	}
	go server.ServeTLS(listener, "", "") //nolint:errcheck // ends with ctx
	context.AfterFunc(ctx, func() { server.Close() })
	return nil
}

// CABundle is Serve's authority, in PEM.
func (l *Lab) CABundle() []byte { return l.clients.PEM() }

// OtherCABundle did not sign Serve's certificates.
func (l *Lab) OtherCABundle() []byte { return l.front.PEM() }

func serviceNames(namespace, service string) []string {
	return []string{service + "." + namespace + ".svc"}
}

// Certify writes NAME.crt and NAME.key, signed by CABundle, for a Service's ClusterIP.
func (l *Lab) Certify(ctx context.Context, namespace, service string) (address, name string, err error) {
	if address, err = l.ClusterIP(ctx, namespace, service); err != nil {
		return "", "", err
	}
	name = namespace + "-" + service
	err = l.writePair(l.clients, name, service, nil, serviceNames(namespace, service), address)
	return address, filepath.Join(l.dir, name), err
}

// SampleAPIServer runs k8s.io/sample-apiserver on a Service's ClusterIP, as an administrator:
// wardle.example.com/v1alpha1 (flunders, fischers) and v1beta1 (flunders). The caller creates the APIService,
// with CABundle. For "--protobuf" see test/components/kubernetes/sampleapiserver.
func (l *Lab) SampleAPIServer(ctx context.Context, namespace, service string, args ...string) (*Process, error) {
	address, certificate, err := l.Certify(ctx, namespace, service)
	if err != nil {
		return nil, err
	}
	bin, err := BuildExtension(ctx, l.options.Progress)
	if err != nil {
		return nil, err
	}
	return l.StartProcess(namespace+"-"+service, filepath.Join(bin, "sample-apiserver"), append([]string{
		"--etcd-servers", l.etcdURL(), "--bind-address", address, "--secure-port", "443",
		"--disable-admission-plugins", "MutatingAdmissionPolicy", // not served by older control planes
		"--tls-cert-file", certificate + ".crt", "--tls-private-key-file", certificate + ".key",
		"--kubeconfig", l.kubeconfig, "--authentication-kubeconfig", l.kubeconfig, "--authorization-kubeconfig", l.kubeconfig}, args...)...)
}

// Review is a webhook that decides.
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
		json.NewEncoder(w).Encode(review) //nolint:errcheck // the API server may be gone
	})
}

func Allow() http.Handler {
	return Review(func(map[string]any) (bool, string) { return true, "" })
}

func Deny(message string) http.Handler {
	return Review(func(map[string]any) (bool, string) { return false, message })
}

// Convert needs versions that differ only in name (apiextensions.k8s.io/v1, ConversionReview).
func Convert() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review apiextensionsv1.ConversionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
			http.Error(w, fmt.Sprintf("want a ConversionReview: %v", err), http.StatusBadRequest)
			return
		}
		response := &apiextensionsv1.ConversionResponse{UID: review.Request.UID, Result: metav1.Status{Status: metav1.StatusSuccess}}
		for _, raw := range review.Request.Objects {
			obj := &unstructured.Unstructured{}
			if err := obj.UnmarshalJSON(raw.Raw); err != nil {
				response.Result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error()}
				break
			}
			obj.SetAPIVersion(review.Request.DesiredAPIVersion)
			response.ConvertedObjects = append(response.ConvertedObjects, runtime.RawExtension{Object: obj})
		}
		review.Request, review.Response = nil, response
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(review) //nolint:errcheck // the API server may be gone
	})
}

func Hang() http.Handler {
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server notices the hang-up only after the body is read
		<-r.Context().Done()
	})
}

// ExtensionAPI serves just enough discovery to make an APIService available.
func ExtensionAPI(group, version, resource, kind string, verbs ...string) http.Handler {
	list := metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: group + "/" + version,
		APIResources: []metav1.APIResource{{Name: resource, Namespaced: true, Kind: kind, Verbs: verbs}},
	}
	gv := metav1.GroupVersionForDiscovery{GroupVersion: list.GroupVersion, Version: version}
	apiGroup := metav1.APIGroup{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroup"}, Name: group, Versions: []metav1.GroupVersionForDiscovery{gv}, PreferredVersion: gv}
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(v) //nolint:errcheck // the API server may be gone
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
