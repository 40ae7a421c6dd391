package live

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"

	"github.com/termguard/termguard/cluster"
	"github.com/termguard/termguard/cluster/facts"
)

type Discovered struct {
	Groups []*metav1.APIGroup
	Lists  []*metav1.APIResourceList
	Failed map[schema.GroupVersion]error // groups that do not answer
}

// Discover reads the served resources. An error means that none could be read.
func Discover(ctx context.Context, client discovery.DiscoveryInterfaceWithContext) (Discovered, error) {
	groups, lists, err := discovery.ServerGroupsAndResourcesWithContext(ctx, client)
	discovered := Discovered{Groups: groups, Lists: lists}
	var failed *discovery.ErrGroupDiscoveryFailed
	switch {
	case errors.As(err, &failed):
		discovered.Failed = failed.Groups
	case err != nil:
		return Discovered{}, fmt.Errorf("discover what the cluster serves: %w", err)
	}
	return discovered, nil
}

func (c *Cluster) serves(ctx context.Context) (feeds map[string]feed, lost map[string]error, err error) {
	discovered := c.discovered
	if discovered == nil {
		fresh, err := Discover(ctx, c.discovery)
		if err != nil {
			return nil, nil, err
		}
		discovered = &fresh
	}
	version, err := c.discovery.ServerVersionWithContext(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("read the version of the API server: %w", err)
	}
	c.world.SetVersion(version.GitVersion)

	stale, lost := map[string]bool{}, map[string]error{}
	for gv, err := range discovered.Failed {
		stale[gv.Version+"."+gv.Group] = true
		lost[gv.Group] = err
	}
	var served []string
	preferred := map[string]string{}
	for _, group := range discovered.Groups {
		preferred[group.Name] = group.PreferredVersion.Version
		served = append(served, group.Name)
	}
	c.world.SetServed(served, stale)
	feeds, older := feedsOf(discovered.Lists, preferred)
	for _, res := range cluster.Whole() {
		_, served := feeds[res.String()]
		switch versions := older[res.String()]; {
		case served || lost[res.Group] != nil:
		case len(versions) > 0:
			c.world.SetUnseen(res, facts.UnseenDiscovery, fmt.Sprintf("the cluster serves it as %s; termguard reads %s", strings.Join(versions, " and "), res.Version))
		default: // no object of it can exist
			c.world.Seen(res)
		}
	}
	var followed []cluster.Resource
	for _, f := range feeds {
		followed = append(followed, f.Resource)
	}
	c.world.Follow(followed)
	for name, f := range feeds {
		_, _, f.role = c.world.Role(f.Resource)
		feeds[name] = f
	}
	return feeds, lost, nil
}

// unknownResources represents all resources of an unreadable group.
func unknownResources(group string) cluster.Resource {
	return cluster.Resource{GroupVersionResource: schema.GroupVersionResource{Group: group, Resource: "*"}, Namespaced: true}
}

// feedsOf selects all deletable and listable resources, in their groups' preferred versions or the reducers'.
// older has the versions of resources that are not served in the reducers'.
func feedsOf(lists []*metav1.APIResourceList, preferred map[string]string) (feeds map[string]feed, older map[string][]string) {
	feeds, older = map[string]feed{}, map[string][]string{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, api := range list.APIResources {
			res := cluster.Resource{GroupVersionResource: gv.WithResource(api.Name), Namespaced: api.Namespaced}
			verbs := sets.New(api.Verbs...)
			name := res.String()
			if strings.Contains(api.Name, "/") || unwatched.Has(name) || !verbs.HasAll("delete", "list") {
				continue
			}
			before, have := feeds[name]
			switch {
			case cluster.Reduces(res):
				if !slices.Contains(cluster.Whole(), res) {
					older[name] = append(older[name], gv.Version)
					rank := func(version string) int { return slices.Index(cluster.Alike(res), version) }
					if at := rank(gv.Version); at < 0 || have && rank(before.Version) < at {
						continue
					}
				}
			case have && gv.Version != preferred[gv.Group]:
				before.others = append(before.others, res)
				feeds[name] = before
				continue // the preferred version may lack the resource
			case have:
				before.others = append(before.others, before.Resource)
			}
			feeds[name] = feed{Resource: res, verbs: verbs, others: before.others}
		}
	}
	maps.DeleteFunc(older, func(name string, _ []string) bool { _, is := feeds[name]; return is })
	return feeds, older
}
