package runner

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/termguard/termguard/internal/shell"
	"github.com/termguard/termguard/lint"
)

// orders write an order, by the form that is asked for.
var orders = map[string]func(io.Writer, lint.Order) error{
	"list": listed, "argocd": waves, "helm": hook,
}

func (r *runner) printOrders(write func(io.Writer, lint.Order) error, result *lint.Result) error {
	for _, problem := range result.Problems {
		fmt.Fprintf(r.Stderr, "termguard: %s: %s\n", problem.File, problem.Message)
	}
	for _, order := range result.Orders {
		if len(result.Orders) > 1 {
			fmt.Fprintf(r.Stdout, "# %s\n", order.Folder)
		}
		if err := write(r.Stdout, order); err != nil {
			return fmt.Errorf("write the order: %w", err)
		}
	}
	if n := len(result.Problems); n > 0 {
		return fmt.Errorf("%s with the input: the order is without what could not be read", counted(n, "problem"))
	}
	return nil
}

// listed writes commands for a shell: kubectl waits until what it deletes is gone.
func listed(out io.Writer, order lint.Order) error {
	if slices.ContainsFunc(order.Places, func(place []lint.Ordered) bool {
		return slices.ContainsFunc(place, func(entry lint.Ordered) bool { return entry.Open })
	}) {
		fmt.Fprintln(out, "# what has no -n is deleted in the namespace of kubectl's context")
	}
	for i, place := range order.Places {
		why := reason(place)
		if why == "" && i > 0 && i == len(order.Places)-1 && takesOthers(place[0]) {
			why = "what takes others with it"
		}
		fmt.Fprintf(out, "# %d. %s\n", i+1, cmp.Or(why, "the rest"))
		for len(place) > 0 {
			together := 1 // of one kind, in one namespace
			for together < len(place) && together < 10 && place[together].Resource == place[0].Resource && place[together].Namespace == place[0].Namespace {
				together++
			}
			words := []string{"kubectl delete"}
			for _, entry := range place[:together] {
				words = append(words, shell.Quote(entry.Resource+"/"+entry.Name))
			}
			if namespace := place[0].Namespace; namespace != "" {
				words = append(words, "-n", shell.Quote(namespace))
			}
			if _, err := fmt.Fprintln(out, strings.Join(append(words, "--ignore-not-found"), " ")); err != nil {
				return err
			}
			place = place[together:]
		}
	}
	return nil
}

func takesOthers(entry lint.Ordered) bool {
	return entry.Kind == "Namespace" || entry.Kind == "CustomResourceDefinition"
}

// reason names what those at one place need.
func reason(place []lint.Ordered) string {
	var others []string
	for _, entry := range place {
		if entry.For == nil {
			continue
		}
		if other := entry.For.Resource + "/" + entry.For.Name; !slices.Contains(others, other) {
			others = append(others, other)
		}
	}
	if len(others) == 0 {
		return ""
	}
	return "before " + strings.Join(others, ", ")
}

// waves writes patches, as kustomize takes them, that put objects into sync waves. Argo CD
// deletes the highest first, and each when those above are gone. What has none is in wave 0.
func waves(out io.Writer, order lint.Order) error {
	rest := slices.IndexFunc(order.Places, func(place []lint.Ordered) bool { return place[0].For == nil })
	if rest < 0 {
		rest = len(order.Places)
	}
	for i, place := range order.Places {
		if i == rest {
			continue
		}
		for _, entry := range place {
			metadata := map[string]any{"name": entry.Name, "annotations": map[string]any{"argocd.argoproj.io/sync-wave": fmt.Sprint(rest - i)}}
			if entry.Namespace != "" {
				metadata["namespace"] = entry.Namespace
			}
			if err := document(out, map[string]any{"apiVersion": entry.GroupVersion().String(), "kind": entry.Kind, "metadata": metadata}); err != nil {
				return err
			}
		}
	}
	return nil
}

// hook writes a template for a chart: a hook that runs before helm uninstall deletes
// anything, deletes what goes before a workload, and waits until it is gone.
func hook(out io.Writer, order lint.Order) error {
	var commands []string
	rules := []any{}
	known := map[string]bool{}
	for _, place := range order.Places {
		for _, entry := range place {
			if entry.For == nil {
				continue
			}
			command := "kubectl delete " + shell.Quote(entry.Resource+"/"+entry.Name) + " --ignore-not-found"
			if entry.Namespace != "" {
				command += " -n " + shell.Quote(entry.Namespace)
			}
			commands = append(commands, command)
			if !known[entry.Resource] {
				known[entry.Resource] = true
				resource, _, _ := strings.Cut(entry.Resource, ".")
				rules = append(rules, map[string]any{"apiGroups": []any{entry.Group}, "resources": []any{resource}, "verbs": []any{"get", "list", "watch", "delete"}})
			}
		}
	}
	if len(commands) == 0 {
		_, err := fmt.Fprintln(out, "# nothing has to go before a workload of the chart: no hook is needed")
		return err
	}
	const name, namespace = "delete-first", "{{ .Release.Namespace }}"
	fullName := "{{ .Release.Name }}-" + name
	metadata := func(name, weight string, namespaced bool) map[string]any {
		m := map[string]any{"name": name, "annotations": map[string]any{
			"helm.sh/hook": "pre-delete", "helm.sh/hook-weight": weight, "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded",
		}}
		if namespaced {
			m["namespace"] = namespace
		}
		return m
	}
	const rbac = "rbac.authorization.k8s.io"
	for _, object := range []map[string]any{
		{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(fullName, "-2", true)},
		{"apiVersion": rbac + "/v1", "kind": "ClusterRole", "metadata": metadata(fullName, "-2", false), "rules": rules},
		{
			"apiVersion": rbac + "/v1", "kind": "ClusterRoleBinding", "metadata": metadata(fullName, "-1", false),
			"roleRef":  map[string]any{"apiGroup": rbac, "kind": "ClusterRole", "name": fullName},
			"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": fullName, "namespace": namespace}},
		},
		{
			"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata(fullName, "0", true),
			"spec": map[string]any{"backoffLimit": 2, "template": map[string]any{"spec": map[string]any{
				"serviceAccountName": fullName, "restartPolicy": "Never",
				"containers": []any{map[string]any{
					"name": name, "image": "{{ .Values.kubectlImage }}",
					"command": []any{"sh", "-ec", strings.Join(commands, "\n")},
				}},
			}}},
		},
	} {
		if err := document(out, object); err != nil {
			return err
		}
	}
	return nil
}

func document(out io.Writer, object map[string]any) error {
	text, err := yaml.Marshal(object)
	if err == nil {
		_, err = fmt.Fprintf(out, "---\n%s", text)
	}
	return err
}
