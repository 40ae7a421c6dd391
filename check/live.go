package check

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
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
)

// reads bounds the objects that are read at once.
const reads = 16

// maxCandidates bounds the objects that are listed for the one that was meant.
const maxCandidates = 500

// FromCluster finds an object in a cluster and reads the facts that its deletion
// depends on.
func FromCluster(ctx context.Context, config *rest.Config, options cluster.Options, name Name, log *slog.Logger) (Subject, *cluster.World, error) {
	subjects, missing, world, err := AllFromCluster(ctx, config, options, Together{Names: []Name{name}}, log)
	switch {
	case err != nil:
		return Subject{}, nil, err
	case len(missing) > 0:
		return Subject{}, nil, missing[0]
	}
	return subjects[0], world, nil
}

// AllFromCluster finds several objects. One that does not exist, or whose type does not,
// is missing, with an error that says so. The facts are nil where all are.
func AllFromCluster(ctx context.Context, config *rest.Config, options cluster.Options, together Together, log *slog.Logger) (subjects []Subject, missing []error, world *cluster.World, err error) {
	names, types := together.Names, together.Types
	if types == nil {
		found, err := Served(ctx, config)
		if err != nil {
			return nil, nil, nil, err
		}
		types = &found
	}
	user, err := Whoami(ctx, config)
	if err != nil {
		log.Debug("who would delete is unknown", "error", err)
	}
	if subjects, missing, err = types.subjects(ctx, config, user, names); err != nil {
		return nil, nil, nil, err
	}
	within := map[string]bool{} // the namespaces whose content counts; "" for all
	for _, s := range subjects {
		if s.Type.GroupResource() == namespaces {
			within[s.Name] = true
		} else {
			within[s.Namespace] = true
		}
	}
	if len(subjects) == 0 {
		return nil, missing, nil, nil
	}
	namespace := ""
	for only := range within {
		if len(within) == 1 {
			namespace = only
		}
	}
	if world, err = types.Collect(ctx, config, options, namespace, log); err != nil {
		return nil, nil, nil, err
	}
	for i, s := range subjects {
		subjects[i].Unseen = append(s.Unseen, world.Unread(namespace)...)
		if s.Type.GroupResource() == definitions {
			subjects[i].Unseen = append(subjects[i].Unseen, world.UnreadOf(s.Name)...)
		}
		switch {
		case s.Type.GroupResource() == namespaces:
			err = world.ReadConditions(ctx, config, s.Name, log)
		case s.guarded():
			err = world.ReadWarningsOf(ctx, config, s.Type.GroupResource(), s.Namespace, s.Name, s.UID(), log)
		}
		if err != nil {
			return nil, nil, nil, err
		}
	}
	return subjects, missing, world, nil
}

// Read reads the objects that names mean, in their order; missing are errors for those that
// are not there.
func Read(ctx context.Context, config *rest.Config, names []Name) (subjects []Subject, missing []error, err error) {
	types, err := Served(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	user, _ := Whoami(ctx, config) // who would delete is unknown, then
	return types.subjects(ctx, config, user, names)
}

// subjects reads the objects that names mean, in their order.
func (t Types) subjects(ctx context.Context, config *rest.Config, user authenticationv1.UserInfo, names []Name) (subjects []Subject, missing []error, err error) {
	client, err := objectsOf(config)
	if err != nil {
		return nil, nil, err
	}
	found, absent := make([]Subject, len(names)), make([]error, len(names))
	reading, readCtx := errgroup.WithContext(ctx)
	reading.SetLimit(reads)
	for i, name := range names {
		reading.Go(func() error {
			s := Subject{Name: name.Name, User: user, Place: name.Place}
			var err error
			if s.Type, err = t.Find(name.Type); errors.As(err, new(noTypeError)) {
				absent[i] = name.located(err)
				return nil
			} else if err != nil {
				return err
			}
			if err := s.Type.deletable(); err != nil {
				return err
			}
			if s.Type.Namespaced {
				s.Namespace = name.Namespace
			}
			switch err := s.read(readCtx, client); {
			case errors.As(err, new(missingError)):
				if len(names) == 1 {
					err = missingError(err.Error() + s.hint(readCtx, config))
				}
				absent[i] = err
			case err != nil:
				return err
			}
			found[i] = s
			return nil
		})
	}
	if err := reading.Wait(); err != nil {
		return nil, nil, err
	}
	for i, s := range found {
		if absent[i] != nil {
			missing = append(missing, absent[i])
		} else {
			subjects = append(subjects, s)
		}
	}
	return subjects, missing, nil
}

// Collect reads the facts of the cluster that serves the types, without asking again what
// it serves. Where ctx ends, the error comes with what was read by then.
func (t Types) Collect(ctx context.Context, config *rest.Config, options cluster.Options, namespace string, log *slog.Logger) (*cluster.World, error) {
	world, err := live.Collect(ctx, config, options, t.discovered, namespace, log)
	if err != nil {
		return world, fmt.Errorf("read the cluster: %w", explain(err))
	}
	return world, nil
}

// maxSelected bounds the objects that are asked about by their type.
const maxSelected = 1000

// Selected are the objects of types, by a selector of labels and one of fields, as kubectl
// has them; in all namespaces where namespace is "". An error tells of more than can be asked
// about at once.
func Selected(ctx context.Context, config *rest.Config, types []string, namespace, labels, fields string) (together Together, err error) {
	known, err := Served(ctx, config)
	if err != nil {
		return together, err
	}
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return together, fmt.Errorf("connect: %w", err)
	}
	together.Types = &known
	var all []Type
	for _, name := range types {
		found, err := known.findAll(name)
		if err != nil {
			return together, err
		}
		for _, typ := range found {
			if !slices.ContainsFunc(all, func(t Type) bool { return t.GroupResource() == typ.GroupResource() }) {
				all = append(all, typ)
			}
		}
	}
	for _, typ := range all {
		options := metav1.ListOptions{LabelSelector: labels, FieldSelector: fields, Limit: maxSelected + 1}
		var objects metadata.ResourceInterface = client.Resource(typ.GroupVersionResource)
		if typ.Namespaced {
			objects = client.Resource(typ.GroupVersionResource).Namespace(namespace)
		}
		list, err := objects.List(ctx, options)
		if err != nil {
			return together, fmt.Errorf("list %s: %w", typ.GroupResource(), explain(err))
		}
		for _, item := range list.Items {
			together.Names = append(together.Names, Name{Type: typ.GroupResource().String(), Namespace: item.Namespace, Name: item.Name})
		}
	}
	if len(together.Names) > maxSelected {
		return together, fmt.Errorf("there are more than %d of %s: select fewer with -l, --field-selector or -n", maxSelected, strings.Join(types, ","))
	}
	return together, nil
}

// TypeNames are the types that can be deleted, as they are named on the command line.
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

// missingError says that an object does not exist.
type missingError string

func (e missingError) Error() string { return string(e) }

// objectsOf reads objects, as fast as the API server lets it.
func objectsOf(config *rest.Config) (dynamic.Interface, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return client, nil
}

// read reads the object. One that may not be read is unseen, not an error.
func (s *Subject) read(ctx context.Context, client dynamic.Interface) error {
	var objects dynamic.ResourceInterface = client.Resource(s.Type.GroupVersionResource)
	if s.Namespace != "" {
		objects = client.Resource(s.Type.GroupVersionResource).Namespace(s.Namespace)
	}
	object, err := objects.Get(ctx, s.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		s.Object = object.Object
		return nil
	case apierrors.IsForbidden(err):
		s.Object, s.Stub = bare(s.Type, s.Namespace, s.Name), "what may be read here"
		s.Unseen = append(s.Unseen, fmt.Sprintf("%s itself: forbidden", s))
		return nil
	case apierrors.IsNotFound(err):
		return missingError(fmt.Sprintf("there is no %s", s))
	default:
		return fmt.Errorf("read %s: %w", s, explain(err))
	}
}

// hint is what was meant by an object that is not there, as far as that can be
// listed.
func (s *Subject) hint(ctx context.Context, config *rest.Config) string {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return ""
	}
	names := func(objects metadata.ResourceInterface) (names []string) {
		list, err := objects.List(ctx, metav1.ListOptions{Limit: maxCandidates})
		if err != nil {
			return nil
		}
		for _, item := range list.Items {
			names = append(names, item.Name)
		}
		return names
	}
	if s.Namespace == "" {
		return nearest.Hint(s.Name, names(client.Resource(s.Type.GroupVersionResource)))
	}
	all := client.Resource(namespaces.WithVersion("v1"))
	if _, err := all.Get(ctx, s.Namespace, metav1.GetOptions{}); apierrors.IsNotFound(err) {
		return fmt.Sprintf(", for there is no namespace %q%s", s.Namespace, nearest.Hint(s.Namespace, names(all)))
	}
	return nearest.Hint(s.Name, names(client.Resource(s.Type.GroupVersionResource).Namespace(s.Namespace)))
}

// Whoami is who requests would come from.
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

// explain says what to do about a cluster that does not answer.
func explain(err error) error {
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
