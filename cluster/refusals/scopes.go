package refusals

import "slices"

// clusterKinds are cluster-scoped custom kinds of well-known projects, by API group, from their
// CustomResourceDefinitions: manifests with a webhook often lack the definitions of its resources.
var clusterKinds = map[string][]string{
	"addon.open-cluster-management.io":    {"addontemplates", "clustermanagementaddons"},
	"apps.kruise.io":                      {"imagelistpulljobs", "nodeimages", "nodepodprobes", "sidecarsets"},
	"argoproj.io":                         {"clusteranalysistemplates", "clusterworkflowtemplates"},
	"capsule.clastix.io":                  {"capsuleconfigurations", "tenants"},
	"cdi.kubevirt.io":                     {"cdiconfigs", "cdis"},
	"cert-manager.io":                     {"clusterissuers"},
	"cluster.open-cluster-management.io":  {"clusterclaims", "managedclusters", "managedclustersets"},
	"external-secrets.io":                 {"clusterexternalsecrets", "clusterpushsecrets", "clustersecretstores"},
	"gateway.networking.k8s.io":           {"gatewayclasses"},
	"groupsnapshot.storage.k8s.io":        {"volumegroupsnapshotclasses", "volumegroupsnapshotcontents"},
	"infrastructure.cluster.x-k8s.io":     {"awsclustercontrolleridentities", "awsclusterroleidentities", "awsclusterstaticidentities"},
	"instancetype.kubevirt.io":            {"virtualmachineclusterinstancetypes", "virtualmachineclusterpreferences"},
	"karpenter.k8s.aws":                   {"ec2nodeclasses"},
	"karpenter.sh":                        {"nodeclaims", "nodepools"},
	"kubeflow.org":                        {"clustertrainingruntimes"},
	"kueue.x-k8s.io":                      {"admissionchecks", "clusterqueues", "cohorts", "resourceflavors", "topologies"},
	"kyverno.io":                          {"clustercleanuppolicies", "clusterpolicies", "globalcontextentries"},
	"network.kubesphere.io":               {"bgpconfs", "bgppeers", "eips"},
	"networking.x-k8s.io":                 {"gatewayclasses"}, // the former name of gateway.networking.k8s.io
	"nvidia.com":                          {"clusterpolicies", "nvidiadrivers"},
	"olm.operatorframework.io":            {"clustercatalogs", "clusterextensions"},
	"operator.open-cluster-management.io": {"clustermanagers", "klusterlets"},
	"policies.kubewarden.io":              {"clusteradmissionpolicies", "clusteradmissionpolicygroups", "policyservers"},
	"policy.karmada.io":                   {"clusteroverridepolicies", "clusterpropagationpolicies"},
	"policy.networking.k8s.io":            {"adminnetworkpolicies", "baselineadminnetworkpolicies", "clusternetworkpolicies"},
	"runtime.cluster.x-k8s.io":            {"extensionconfigs"},
	"snapshot.storage.k8s.io":             {"volumesnapshotclasses", "volumesnapshotcontents"},
	"spire.spiffe.io":                     {"clusterfederatedtrustdomains", "clusterspiffeids", "clusterstaticentries"},
	"templates.gatekeeper.sh":             {"constrainttemplates"},
	"trainer.kubeflow.org":                {"clustertrainingruntimes"},
	"trust.cert-manager.io":               {"bundles"},
	"work.karmada.io":                     {"clusterresourcebindings"},
}

// inNoNamespace reports whether a kind is certainly cluster-scoped.
func inNoNamespace(group, resource string) bool {
	return slices.Contains(clusterKinds[group], resource)
}
