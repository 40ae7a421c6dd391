package scan

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/termguard/termguard/answer"
	"github.com/termguard/termguard/cluster"
)

// A repair is evaluated in a cluster whose objects are as after it.

// repairable reports whether a repair may change an object.
func repairable(res cluster.Resource, m metav1.Object) bool {
	if e, is := m.(*corev1.Event); is {
		_, ok := cluster.FromKubelet(e)
		return ok
	}
	return len(m.GetFinalizers()) > 0 || slices.Contains([]string{apiservices, validating, mutating, csinodes}, res.String())
}

// without evaluates questions as after a repair of causes.
func (p *Place) without(ctx context.Context, engine answer.Evaluator, questions []candidate, options map[string]any, causes []*Cause) (replies []reply, err error) {
	r, finalizers := cluster.Repair{}, []string(nil)
	for _, c := range causes {
		finalizers = append(finalizers, c.Finalizers...)
		if c.ofNode() {
			r.Changes = append(r.Changes, p.plugins(c)...)
			if slices.ContainsFunc(c.Policies, probed) {
				r.Probed = append(r.Probed, c.Object.Name)
			}
		}
	}
	for res, objects := range p.arrivals.objects {
		for _, m := range objects {
			before, is := m.(runtime.Object)
			if !is {
				continue
			}
			after := released(before, finalizers)
			for _, c := range causes {
				if after != nil && c.Object != nil {
					after = p.repaired(c, res.String(), after)
				}
			}
			if after != before {
				r.Changes = append(r.Changes, cluster.Change{Resource: res, Before: before, After: after})
			}
		}
	}
	for i, q := range questions {
		if len(finalizers) > 0 {
			questions[i].subject = func() answer.Subject { return withoutFinalizers(q.subject(), finalizers) }
		}
	}
	err = p.World.Meanwhile(r, func() { replies = askAll(ctx, engine, questions, options, func(int) {}) })
	return replies, err
}

func withoutFinalizers(s answer.Subject, finalizers []string) answer.Subject {
	if s.Object != nil {
		s.Object = left(s.Object, finalizers)
	}
	if s.Whole != nil {
		whole := *s.Whole
		whole.Targets = slices.Clone(whole.Targets)
		for i, target := range whole.Targets {
			whole.Targets[i] = withoutFinalizers(target, finalizers)
		}
		s.Whole = &whole
	}
	return s
}

// left returns an object without finalizers.
func left(object map[string]any, finalizers []string) map[string]any {
	object = maps.Clone(object)
	for _, field := range []string{"metadata", "spec"} {
		part, _ := object[field].(map[string]any)
		if list, some := part["finalizers"].([]any); some {
			part = maps.Clone(part)
			part["finalizers"] = slices.DeleteFunc(slices.Clone(list), func(finalizer any) bool {
				text, _ := finalizer.(string)
				return slices.Contains(finalizers, text)
			})
			object[field] = part
		}
	}
	return object
}

// released returns an object without finalizers, itself if it has none of them. An attachment keeps its own:
// its owner has to detach the volume first.
func released(o runtime.Object, finalizers []string) runtime.Object {
	among := func(finalizer string) bool { return slices.Contains(finalizers, finalizer) }
	amongSpec := func(finalizer corev1.FinalizerName) bool { return among(string(finalizer)) }
	switch o := o.(type) {
	case *storagev1.VolumeAttachment:
	case *corev1.Namespace:
		if slices.ContainsFunc(o.Finalizers, among) || slices.ContainsFunc(o.Spec.Finalizers, amongSpec) {
			o = o.DeepCopy()
			o.Finalizers, o.Spec.Finalizers = slices.DeleteFunc(o.Finalizers, among), slices.DeleteFunc(o.Spec.Finalizers, amongSpec)
			return o
		}
	case metav1.Object:
		if slices.ContainsFunc(o.GetFinalizers(), among) {
			left := slices.DeleteFunc(slices.Clone(o.GetFinalizers()), among)
			released := o.(runtime.Object).DeepCopyObject()
			released.(metav1.Object).SetFinalizers(left)
			return released
		}
	}
	return o
}

// repaired returns an object as after a repair of c, nil if it is deleted then.
func (p *Place) repaired(c *Cause, resource string, o runtime.Object) runtime.Object {
	m, is := o.(metav1.Object)
	itself := is && resource == c.Object.Resource && m.GetName() == c.Object.Name
	switch c.Object.Resource {
	case apiservices, validating, mutating:
		if itself {
			return nil
		}
	case definitions:
		if definition, is := o.(*apiextensionsv1.CustomResourceDefinition); is && itself {
			definition = definition.DeepCopy()
			definition.Spec.Conversion = nil
			return definition
		}
	case nodes, csinodes:
		for _, policy := range c.Policies {
			if o = p.onNode(c.Object.Name, policy, o); o == nil {
				return nil
			}
		}
	}
	return o
}

func (c *Cause) ofNode() bool {
	return c.Object != nil && (c.Object.Resource == nodes || c.Object.Resource == csinodes)
}

// Policies about nodes by what they rest on: the Node, drivers, events, or, all others, also conditions, pods
// that are late, and reports of probes.
const (
	unreachable, badRuntime, noDriver, noPlugin = "unreachable-node", "known-bad-runtime", "volume-driver-missing", "dra-driver-missing"
	busyMount, immutableFiles, noNetwork        = "busy-mount", "immutable-files", "network-plugin-removed"
)

func probed(policy string) bool {
	return !slices.Contains([]string{unreachable, badRuntime, noDriver, noPlugin, noNetwork}, policy)
}

func late(policy string) bool {
	return probed(policy) && policy != busyMount && policy != immutableFiles
}

// onNode returns an object as after a repair of what a policy finds on a node.
func (p *Place) onNode(node, policy string, o runtime.Object) runtime.Object {
	switch of := o.(type) {
	case *corev1.Node:
		if of.Name == node {
			return healthy(of, policy)
		}
	case *corev1.Event:
		if from, _ := cluster.FromKubelet(of); from == node && (probed(policy) || policy == noNetwork) {
			return nil
		}
	case *corev1.Pod:
		if late(policy) && of.DeletionTimestamp != nil && of.Spec.NodeName == node {
			of = of.DeepCopy()
			of.DeletionTimestamp, of.DeletionGracePeriodSeconds = nil, nil
			return of
		}
	case *storagev1.CSINode:
		if policy == noDriver && of.Name == node {
			of = of.DeepCopy()
			drivers, _ := p.World.Lacks(node)
			for _, driver := range drivers {
				of.Spec.Drivers = append(of.Spec.Drivers, storagev1.CSINodeDriver{Name: driver})
			}
			return of
		}
	}
	return o
}

func healthy(node *corev1.Node, policy string) *corev1.Node {
	if policy != unreachable && policy != badRuntime && !late(policy) {
		return node
	}
	node = node.DeepCopy()
	ready := func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady }
	switch policy {
	case unreachable:
		node.Status.Conditions = append(slices.DeleteFunc(node.Status.Conditions, ready), corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue})
	case badRuntime:
		node.Status.NodeInfo = corev1.NodeSystemInfo{}
	default:
		node.Status.Conditions = slices.DeleteFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return !ready(c) })
	}
	return node
}

// plugins returns the plugins that a node lacks for a policy.
func (p *Place) plugins(c *Cause) (changes []cluster.Change) {
	if !slices.Contains(c.Policies, noPlugin) {
		return nil
	}
	_, drivers := p.World.Lacks(c.Object.Name)
	for _, driver := range drivers {
		changes = append(changes, cluster.Change{
			Resource: cluster.Resource{GroupVersionResource: resourcev1.SchemeGroupVersion.WithResource("resourceslices")},
			After: &resourcev1.ResourceSlice{
				ObjectMeta: metav1.ObjectMeta{Name: c.Object.Name + "-" + driver},
				Spec:       resourcev1.ResourceSliceSpec{Driver: driver, NodeName: &c.Object.Name},
			},
		})
	}
	return changes
}
