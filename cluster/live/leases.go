package live

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/termguard/termguard/cluster"
)

const nodeLeases = "metadata.namespace!=kube-node-lease"

func readLeases(ctx context.Context, client typedcoordinationv1.LeasesGetter, world *cluster.World) error {
	var all []coordinationv1.Lease
	options := metav1.ListOptions{FieldSelector: nodeLeases, Limit: pageSize}
	for range maxPagesElsewhere { // a user of one namespace may create any number of leases
		list, err := client.Leases(metav1.NamespaceAll).List(ctx, options)
		if err != nil {
			return fmt.Errorf("list leases: %w", err)
		}
		for _, l := range list.Items {
			all = append(all, coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: l.Name}, Spec: l.Spec})
		}
		if options.Continue = list.Continue; options.Continue == "" {
			break
		}
	}
	world.SetLeases(all)
	return nil
}
