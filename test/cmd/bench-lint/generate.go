package main

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Most bytes are schemas, most documents are workloads, configuration and RBAC.
func generate(into string) error {
	for folder := range 100 {
		dir := filepath.Join(into, fmt.Sprintf("app%d", folder))
		for app := range 6 {
			name := fmt.Sprintf("app%d-%d", folder, app)
			text := strings.Join([]string{
				deployment(name), service(name), configMap(name), role(name), account(name), namespace(name), ingress(name),
			}, "---\n")
			if err := write(filepath.Join(dir, name+".yaml"), text); err != nil {
				return err
			}
		}
		if err := write(filepath.Join(dir, "crd.yaml"), definition(fmt.Sprintf("thing%d", folder), 1500)); err != nil {
			return err
		}
	}
	return nil
}

func head(apiVersion, kind, name string) string {
	return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata:\n  name: %s\n  namespace: %[3]s\n  labels:\n    app.kubernetes.io/name: %[3]s\n", apiVersion, kind, name)
}

func deployment(name string) string {
	return head("apps/v1", "Deployment", name) + fmt.Sprintf(`spec:
  replicas: 2
  selector:
    matchLabels:
      app: %[1]s
  template:
    metadata:
      labels:
        app: %[1]s
    spec:
      serviceAccountName: %[1]s
      terminationGracePeriodSeconds: 30
      containers:
      - name: %[1]s
        image: example.com/%[1]s:v1.2.3
        command: [/bin/%[1]s, --config, /etc/%[1]s/config.yaml]
        env:
        - name: GOMAXPROCS
          value: "2"
        ports:
        - name: http
          containerPort: 8080
        resources:
          limits: {cpu: 500m, memory: 256Mi}
          requests: {cpu: 100m, memory: 128Mi}
        livenessProbe:
          httpGet: {path: /healthz, port: http}
        volumeMounts:
        - name: config
          mountPath: /etc/%[1]s
      volumes:
      - name: config
        configMap:
          name: %[1]s
`, name)
}

func service(name string) string {
	return head("v1", "Service", name) + fmt.Sprintf("spec:\n  selector:\n    app: %s\n  ports:\n  - name: http\n    port: 80\n    targetPort: http\n", name)
}

func configMap(name string) string {
	return head("v1", "ConfigMap", name) + "data:\n  config.yaml: |\n" + strings.Repeat("    some.key: some value\n", 20)
}

func role(name string) string {
	return head("rbac.authorization.k8s.io/v1", "Role", name) + "rules:\n- apiGroups: [\"\"]\n  resources: [configmaps, secrets]\n  verbs: [get, list, watch]\n"
}

func account(name string) string { return head("v1", "ServiceAccount", name) }

func namespace(name string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: %s\n", name)
}

func ingress(name string) string {
	return head("networking.k8s.io/v1", "Ingress", name) + fmt.Sprintf("spec:\n  rules:\n  - host: %[1]s.example.com\n    http:\n      paths:\n      - path: /\n        pathType: Prefix\n        backend:\n          service:\n            name: %[1]s\n            port:\n              name: http\n", name)
}

func definition(name string, properties int) string {
	var text strings.Builder
	fmt.Fprintf(&text, "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: %[1]ss.example.com\nspec:\n  group: example.com\n  scope: Namespaced\n  names: {plural: %[1]ss, kind: %[1]s}\n  versions:\n  - name: v1\n    served: true\n    storage: true\n    schema:\n      openAPIV3Schema:\n        type: object\n        properties:\n", name)
	for i := range properties {
		fmt.Fprintf(&text, "          property%d:\n            description: What this property is for, in a sentence.\n            type: string\n", i)
	}
	return text.String()
}
