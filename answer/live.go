package answer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/live"
	"github.com/termguard/termguard/internal/nearest"
	"github.com/termguard/termguard/policies"
	"github.com/termguard/termguard/question"
)

// maxCandidates bounds the objects listed for a hint.
const maxCandidates = 500

// Subjects reads objects in the order of names; missing are errors for absent objects and types.
func (t Types) Subjects(ctx context.Context, config *rest.Config, user authenticationv1.UserInfo, names []Name) (subjects []Subject, missing []error, err error) {
	client, err := Client(config)
	if err != nil {
		return nil, nil, err
	}
	all, absent := make([]Subject, len(names)), make([]error, len(names))
	err = ReadEach(ctx, len(names), func(ctx context.Context, i int) error {
		name := names[i]
		typ, err := t.Find(name.Resource)
		if errors.As(err, new(noTypeError)) {
			absent[i] = name.located(err)
			return nil
		}
		if err := cmp.Or(err, typ.deletable()); err != nil {
			return err
		}
		s := Subject{Type: typ, Name: name.Name, User: user, Place: name.Place}
		if typ.Namespaced {
			s.Namespace = name.Namespace
		}
		err = s.read(ctx, client)
		if Gone(err) {
			if len(names) == 1 {
				err = missingError(err.Error() + s.hint(ctx, config))
			}
			absent[i], err = err, nil
		}
		all[i] = s
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	for i, s := range all {
		if absent[i] != nil {
			missing = append(missing, absent[i])
		} else {
			subjects = append(subjects, s)
		}
	}
	return subjects, missing, nil
}

// Collect reads the facts without another discovery. If ctx ends, the error comes with the facts so far.
func (t Types) Collect(ctx context.Context, config *rest.Config, options cluster.Options, namespace string, log *slog.Logger) (*cluster.World, error) {
	world, err := live.Collect(ctx, config, options, t.discovered, namespace, log)
	if err != nil {
		return world, fmt.Errorf("read the cluster: %w", Explain(err))
	}
	return world, nil
}

const maxSelected = 1000

// Selected returns objects by kubectl's selectors, in all namespaces for "". Too many are an error.
func Selected(ctx context.Context, config *rest.Config, types []string, namespace, labels, fields string) (q Question, err error) {
	served, err := Served(ctx, config)
	if err != nil {
		return q, err
	}
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return q, fmt.Errorf("connect: %w", err)
	}
	q.Types, q.Together = &served, true
	for _, name := range types {
		matches, err := served.findAll(name)
		if err != nil {
			return q, err
		}
		for _, typ := range matches {
			within := namespace
			if !typ.Namespaced {
				within = ""
			}
			options := metav1.ListOptions{LabelSelector: labels, FieldSelector: fields, Limit: maxSelected + 1}
			list, err := client.Resource(typ.GroupVersionResource).Namespace(within).List(ctx, options)
			if err != nil {
				return q, fmt.Errorf("list %s: %w", typ.GroupResource(), Explain(err))
			}
			for _, item := range list.Items {
				q.Names = append(q.Names, Name{Object: policies.Object{Resource: typ.GroupResource().String(), Namespace: item.Namespace, Name: item.Name}})
			}
		}
	}
	q.Names = unique(q.Names)
	if len(q.Names) > maxSelected {
		return q, fmt.Errorf("there are more than %d of %s: select fewer with -l, --field-selector or -n", maxSelected, strings.Join(types, ","))
	}
	return q, nil
}

// TypeNames returns the types that can be deleted.
func TypeNames(ctx context.Context, config *rest.Config) ([]string, error) {
	types, err := Served(ctx, config)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, t := range types.all {
		if t.deletable() == nil {
			names = append(names, t.GroupResource().String())
		}
	}
	return names, nil
}

type missingError string

func (e missingError) Error() string { return string(e) }

// Client returns a client without a rate limit of its own.
func Client(config *rest.Config) (dynamic.Interface, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return client, nil
}

func (s Subject) on(client dynamic.Interface) dynamic.ResourceInterface {
	return client.Resource(s.Type.GroupVersionResource).Namespace(s.Namespace)
}

// read takes a forbidden object as unseen.
func (s *Subject) read(ctx context.Context, client dynamic.Interface) error {
	object, err := s.on(client).Get(ctx, s.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		s.Object = object.Object
		if object.GetKind() == "PartialObjectMetadata" { // as a snapshot answers that has no more
			object.SetGroupVersionKind(s.Type.GroupVersion().WithKind(s.Type.Kind))
			s.Stub = "a snapshot"
		}
		return nil
	case apierrors.IsForbidden(err):
		s.Object, s.Stub = bare(s.Type, s.Namespace, s.Name), "what may be read here"
		s.Unseen = append(s.Unseen, s.part("forbidden"))
		return nil
	case apierrors.IsNotFound(err):
		return missingError(fmt.Sprintf("%s not found", s))
	default:
		return fmt.Errorf("read %s: %w", s, Explain(err))
	}
}

func (s *Subject) hint(ctx context.Context, config *rest.Config) string {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return ""
	}
	names := func(objects metadata.ResourceInterface) (names []string) {
		if list, err := objects.List(ctx, metav1.ListOptions{Limit: maxCandidates}); err == nil {
			for _, item := range list.Items {
				names = append(names, item.Name)
			}
		}
		return names
	}
	if s.Namespace != "" {
		all := client.Resource(question.Namespaces.WithVersion("v1"))
		if _, err := all.Get(ctx, s.Namespace, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			return fmt.Sprintf(": namespace %q not found%s", s.Namespace, nearest.Hint(s.Namespace, names(all)))
		}
	}
	return nearest.Hint(s.Name, names(client.Resource(s.Type.GroupVersionResource).Namespace(s.Namespace)))
}

func Whoami(ctx context.Context, config *rest.Config) (user authenticationv1.UserInfo, err error) {
	client, err := authenticationclient.NewForConfig(config)
	if err != nil {
		return user, err
	}
	review, err := client.SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return user, err
	}
	return review.Status.UserInfo, nil
}

// Explain adds the next step to an error of connecting.
func Explain(err error) error {
	var network *net.OpError
	var timeout net.Error
	switch {
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the cluster does not accept the credentials (expired?): log in again, or choose another --context: %w", err)
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("the cluster did not answer in time: check the network, or raise --request-timeout: %w", err)
	case errors.As(err, &network):
		return fmt.Errorf("the cluster does not answer: check the network and --context: %w", err)
	}
	return err
}
