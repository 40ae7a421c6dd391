package policies

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/termguard/termguard/internal/race"
)

// TestTypos misspells fields of the request and of the facts, at every depth and in every syntax:
// the compiler reports each.
func TestTypos(t *testing.T) {
	race.Skip(t)
	for name, tc := range map[string]struct{ body, field string }{
		"ASection":           {`data.cluster.nods.a`, "nods"},
		"OfANode":            {`some n; data.cluster.nodes[n].redy`, "redy"},
		"OfANodeByName":      {`data.cluster.nodes.a.redy`, "redy"},
		"OfANodeOfARequest":  {`data.cluster.nodes[input.request.name].redy`, "redy"},
		"OfANodeInAVariable": {`node := data.cluster.nodes[input.request.name]; node.redy`, "redy"},
		"OfEachNode":         {`some node in data.cluster.nodes; node.redy`, "redy"},
		"OfEachNodeWithName": {`some n, node in data.cluster.nodes; n != "a"; not node.redy`, "redy"},
		"OfMetadata":         {`input.request.oldObject.metadata.finalizer`, "finalizer"},
		"OfNewMetadata":      {`some f in input.request.object.metadata.finalizer; f == "a"`, "finalizer"},
		"OfAPod":             {`pod := data.cluster.pods[input.request.namespace][input.request.name]; pod.phse == "Running"`, "phse"},
		"OfEachPod":          {`some pod in data.cluster.pods[input.request.namespace]; pod.phse == "Running"`, "phse"},
		"OfEachPodOfAll":     {`some n, p; data.cluster.pods[n][p].phse == "Running"`, "phse"},
		"InAComprehension":   {`count([p | some p, pod in data.cluster.pods[input.request.namespace]; pod.phse == "Running"]) > 0`, "phse"},
		"OfARule":            {`each_pod.phse == "Running"`, "phse"},
		"OfAFunction":        {`pod_of(input.request.name).phse == "Running"`, "phse"},
		"OfTheVersion":       {`data.cluster.version.gti == "v1"`, "gti"},
		"OfABug":             {`some bug in data.cluster.version.bugs; bug.fixdIn == "v1"`, "fixdIn"},
		"OfAWebhook":         {`some hook in data.cluster.webhooks; hook.falurePolicy`, "falurePolicy"},
		"OfARuleOfAWebhook":  {`some hook in data.cluster.webhooks; some rule in hook.rules; rule.operatons`, "operatons"},
		"OfAMatchCondition":  {`some hook in data.cluster.webhooks; hook.matchConditions[_].expresion`, "expresion"},
		"OfASelector":        {`some hook in data.cluster.webhooks; hook.namespaceSelector.matchLabls`, "matchLabls"},
		"OfTheRequest":       {`input.request.nam == "a"`, "nam"},
		"OfItsResource":      {`input.request.resource.grup == "a"`, "grup"},
		"OfWhoAsks":          {`input.request.userInfo.usrname == "a"`, "usrname"},
		"OfTheInput":         {`input.reqest.name == "a"`, "reqest"},
		"OfOwnership":        {`some owner in input.ownership; owner.stat == "alive"`, "stat"},
		"OfTheParams":        {`data.parms.own.a == 1`, "parms"},
		"OfTheLibraryInASet": {`some x in data.termguard.lib.request.deletng; x == 1`, "deletng"},
		"OfTheLibrary":       {`data.termguard.lib.request.deletng`, "deletng"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(withBody("own", `deny contains {"msg": "no"} if { BODY }

each_pod := pod if some pod in data.cluster.pods[input.request.namespace]

pod_of(name) := data.cluster.pods[input.request.namespace][name]
`), "BODY", tc.body, 1)
			_, err := Load(fstest.MapFS{"own/own.rego": {Data: []byte(text)}})
			if err == nil || !strings.Contains(err.Error(), tc.field) || !strings.Contains(err.Error(), "own/own.rego:") {
				t.Errorf("%s: %v", tc.body, err)
			}
		})
	}
}

// TestOpenFields reads fields that may exist: those of any kind of object, and any names.
func TestOpenFields(t *testing.T) {
	race.Skip(t)
	for name, body := range map[string]string{
		"Spec":          `input.request.oldObject.spec.replicas > 1`,
		"Data":          `input.request.object.data.anything`,
		"Label":         `input.request.oldObject.metadata.labels["example.com/keep"]`,
		"Annotation":    `input.request.oldObject.metadata.annotations.keep`,
		"Owner":         `input.request.oldObject.metadata.ownerReferences[_].uid == "a"`,
		"Options":       `input.request.options.propagationPolicy == "Orphan"`,
		"Extra":         `input.request.userInfo.extra.scopes[_] == "a"`,
		"ANamespace":    `data.cluster.counts.shop.persistentvolumeclaims > 0`,
		"ANode":         `data.cluster.nodes.a.ready`,
		"APodByName":    `data.cluster.pods.shop.web.phase == "Running"`,
		"Rules":         `some hook in data.cluster.webhooks; "DELETE" in hook.rules[_].operations`,
		"Selector":      `some hook in data.cluster.webhooks; hook.namespaceSelector.matchLabels.a == "b"`,
		"Params":        `data.params.own.anything`,
		"ByObjectGet":   `object.get(data.cluster.nodes, ["a", "ready"], true)`,
		"Keys":          `count(object.keys(data.cluster.notReady)) > 0`,
		"NothingThere":  `data.cluster.counts.shop == {}`,
		"AnythingAtAll": `walk(data.cluster.nodes, [_, "a"])`,
	} {
		t.Run(name, func(t *testing.T) {
			text := withBody("own", `deny contains {"msg": "no"} if { `+body+` }`)
			if _, err := Load(fstest.MapFS{"own/own.rego": {Data: []byte(text)}}); err != nil {
				t.Error(err)
			}
		})
	}
}
