package policies

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/termguard/termguard/internal/race"
)

// TestBounds evaluates a policy with steps that are not allowed: each is left out, in custom
// policies and our own.
func TestBounds(t *testing.T) {
	race.Skip(t)
	strip := func(object, finalizer string) string {
		return fmt.Sprintf(`{"verb": "patch", "objects": [%q], "namespace": "demo", "type": "json", "patch": [{"op": "test", "path": "/metadata/finalizers/0", "value": %q}, {"op": "remove", "path": "/metadata/finalizers/0"}]}`, object, finalizer)
	}
	ownership := obj{
		"works": obj{"state": "alive"}, "down": obj{"state": "down"},
		"lacks": obj{"state": "alive", "missing": []any{obj{"without": "hangs"}}},
		"may":   obj{"state": "alive", "missing": []any{obj{"without": "may"}}},
		"right": obj{"state": "alive", "unallowed": []any{obj{"without": "hangs"}}},
	}
	doc := Document{
		"set": obj{"persistentvolumeclaims": obj{"demo": obj{"together": 1}}, "namespaces": obj{"": obj{"along": 2}}},
		"finalized": obj{"demo": obj{"f": obj{"things.x.io": obj{
			"a": obj{"names": []any{"held"}, "ownership": obj{"state": "alive"}},
			"b": obj{"names": []any{"left"}, "ownership": obj{"state": "absent"}},
		}}}},
	}
	thing := obj{"request": obj{
		"operation": "DELETE", "namespace": "demo", "name": "it",
		"resource":  obj{"group": "x.io", "resource": "things"},
		"oldObject": obj{"metadata": obj{"name": "it"}},
	}, "ownership": ownership}
	for name, tc := range map[string]struct {
		input  obj
		action string
		kept   bool
	}{
		"Claim":           {thing, `{"verb": "delete", "objects": ["persistentvolumeclaims/data"], "namespace": "demo"}`, false},
		"Volume":          {thing, `{"verb": "delete", "objects": ["persistentvolumes/data"]}`, false},
		"ClaimAmong":      {thing, `{"verb": "delete", "objects": ["pods/a", "persistentvolumeclaims/data"], "namespace": "demo"}`, false},
		"ClaimPatched":    {thing, strip("persistentvolumeclaims/data", "down"), false},
		"ClaimTogether":   {thing, `{"verb": "delete", "objects": ["persistentvolumeclaims/together"], "namespace": "demo"}`, true},
		"ClaimAlong":      {thing, `{"verb": "delete", "objects": ["persistentvolumeclaims/data"], "namespace": "along"}`, true},
		"ClaimInTarget":   {deleteNamespace("demo", obj{}), `{"verb": "delete", "objects": ["persistentvolumeclaims/data"], "namespace": "demo"}`, true},
		"ClaimBeside":     {deleteNamespace("demo", obj{}), `{"verb": "delete", "objects": ["persistentvolumeclaims/data"], "namespace": "shop"}`, false},
		"ClaimInWords":    {thing, `["kubectl", "delete", "pvc", "data"]`, false},
		"ClaimByAlias":    {thing, `{"verb": "delete", "objects": ["pvc/data"], "namespace": "demo"}`, false},
		"Another":         {thing, `{"verb": "delete", "objects": ["pods/a"], "namespace": "demo"}`, true},
		"OwnerWorks":      {thing, strip("things.x.io/it", "works"), false},
		"OwnerDown":       {thing, strip("things.x.io/it", "down"), true},
		"OwnerLacks":      {thing, strip("things.x.io/it", "lacks"), true},
		"OwnerMayLack":    {thing, strip("things.x.io/it", "may"), false},
		"OwnerHasNoRight": {thing, strip("things.x.io/it", "right"), true},
		"OtherHeld":       {thing, strip("things.x.io/held", "f"), false},
		"OtherLeft":       {thing, strip("things.x.io/left", "f"), true},
	} {
		body := `deny contains {"msg": "m", "steps": [{"kind": "remove", "do": "it", "action": ` + tc.action + `}]}`
		if strings.HasPrefix(tc.action, "[") {
			body = strings.Replace(body, "action", "command", 1)
		}
		result, err := engineOf(t, EngineOptions{Deadline: time.Minute}, files("bounds/bounds.rego", withBody("bounds", body))).Evaluate(t.Context(), Delete, tc.input, doc)
		if err != nil || len(result.Findings) != 1 || len(result.Errors) > 0 {
			t.Fatalf("%s: %v, %v", name, result, err)
		}
		if kept := len(result.Findings[0].Steps) == 1; kept != tc.kept {
			t.Errorf("%s: the step is kept: %t, want %t", name, kept, tc.kept)
		}
	}
}
