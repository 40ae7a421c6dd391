package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// Objects returns TYPE [NAME] [-n NAMESPACE] [-l SELECTOR], or the API server's error. kubectl get would take
// a tenth of a second of CPU time.
func (l *Lab) Objects(ctx context.Context, words ...string) ([]unstructured.Unstructured, error) {
	of, name, selector, err := l.named(l.config, words)
	if err != nil {
		return nil, err
	}
	if name != "" {
		object, err := of.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return []unstructured.Unstructured{*object}, nil
	}
	list, err := of.List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// Gone reports whether TYPE NAME [-n NAMESPACE] is deleted, even if another follows. The limit starts after a
// first read, which takes seconds on a busy machine.
func (l *Lab) Gone(ctx context.Context, limit time.Duration, words ...string) (bool, error) {
	of, name, _, err := l.named(l.config, words)
	if err == nil && name == "" {
		err = fmt.Errorf("%v: want TYPE NAME", words)
	}
	if err != nil {
		return false, err
	}
	first, err := of.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err = goes(limited, of, first); limited.Err() != nil && ctx.Err() == nil {
		return false, nil
	}
	return err == nil, err
}

func goes(ctx context.Context, of dynamic.ResourceInterface, first *unstructured.Unstructured) error {
	for object := first; ; {
		events, err := of.Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", first.GetName()).String(), ResourceVersion: object.GetResourceVersion()})
		if err != nil {
			return err
		}
		for event := range events.ResultChan() {
			if event.Type == watch.Deleted || event.Type == watch.Error { // for example too old: read again
				break
			}
		}
		events.Stop()
		object, err = of.Get(ctx, first.GetName(), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err) || err == nil && object.GetUID() != first.GetUID():
			return nil
		case err != nil:
			return err
		}
	}
}

func (l *Lab) Delete(ctx context.Context, options metav1.DeleteOptions, warnings rest.WarningHandler, words ...string) error {
	config := l.Config()
	config.WarningHandler = warnings
	of, name, _, err := l.named(config, words)
	if err == nil && name == "" {
		err = fmt.Errorf("%v: want TYPE NAME", words)
	}
	if err != nil {
		return err
	}
	return of.Delete(ctx, name, options)
}

func (l *Lab) named(config *rest.Config, words []string) (of dynamic.ResourceInterface, name, selector string, err error) {
	namespace := metav1.NamespaceDefault
	var plain []string
	for i := 0; i < len(words); i++ {
		switch flag := words[i]; {
		case flag != "-n" && flag != "-l":
			plain = append(plain, flag)
		case i+1 == len(words):
			return nil, "", "", fmt.Errorf("%v: %s wants a value", words, flag)
		default:
			i++
			if flag == "-n" {
				namespace = words[i]
			} else {
				selector = words[i]
			}
		}
	}
	if len(plain) == 0 || len(plain) > 2 {
		return nil, "", "", fmt.Errorf("%v: want TYPE [NAME] [-n NAMESPACE] [-l SELECTOR]", words)
	}
	if len(plain) == 2 {
		name = plain[1]
	}
	mapper, err := l.mapper()
	if err != nil {
		return nil, "", "", err
	}
	full, short := schema.ParseResourceArg(plain[0])
	var resource schema.GroupVersionResource
	err = errors.New("no version")
	if full != nil {
		resource, err = mapper.ResourceFor(*full)
	}
	if err != nil {
		if resource, err = mapper.ResourceFor(short.WithVersion("")); err != nil {
			return nil, "", "", err
		}
	}
	kind, err := mapper.KindFor(resource)
	if err != nil {
		return nil, "", "", err
	}
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, "", "", err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, "", "", err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return client.Resource(mapping.Resource).Namespace(namespace), name, selector, nil
	}
	return client.Resource(mapping.Resource), name, selector, nil
}

func (l *Lab) mapper() (meta.RESTMapper, error) {
	client, err := discovery.NewDiscoveryClientForConfig(l.config)
	if err != nil {
		return nil, err
	}
	once := memory.NewMemCacheClient(client)
	groups, err := restmapper.GetAPIGroupResources(once)
	if err != nil {
		return nil, err
	}
	return restmapper.NewShortcutExpander(restmapper.NewDiscoveryRESTMapper(groups), once, nil), nil
}
