package check

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"k8s.io/client-go/rest"

	"github.com/termguard/termguard/check/release"
)

// byHelm is the command that deletes a release, in words.
const byHelm = "helm uninstall"

// FromRelease returns the objects that the uninstall of a Helm release deletes, from Helm's record in the
// namespace.
func FromRelease(ctx context.Context, config *rest.Config, namespace, name string) (Together, error) {
	r, err := release.Find(ctx, config, namespace, name)
	if err != nil {
		return Together{}, explain(err)
	}
	return ofRelease(r, namespace)
}

// ofRelease returns the objects that the uninstall of a release deletes.
func ofRelease(r *release.Release, namespace string) (Together, error) {
	name := r.Name
	u, err := r.Uninstall()
	if err != nil {
		return Together{}, fmt.Errorf("release %q in namespace %q: %w", name, namespace, err)
	}
	together, err := uninstall(u, namespace)
	together.Of = fmt.Sprintf("release %s -n %s, revision %d, %s", name, namespace, r.Version, r.Info.Status)
	together.Command = fmt.Sprintf("helm uninstall %s -n %s", name, namespace)
	switch r.Info.Status {
	case "deployed":
	case "uninstalled":
		return Together{}, fmt.Errorf("release %q in namespace %q is uninstalled: helm has only kept its history", name, namespace)
	case "uninstalling":
		together.Notes = append(together.Notes, "an uninstall was begun and did not end: what is Terminating hangs already")
	default:
		together.Notes = append(together.Notes, fmt.Sprintf("the revision is %s: of its objects, some may never have been created, and what only an earlier revision had is left", r.Info.Status))
	}
	return together, err
}

// FromHelmManifest returns the objects that helm uninstall deletes for manifests as helm get manifest, or
// helm template, prints them: in a file, a folder, or stdin for "-".
func FromHelmManifest(path, namespace string, stdin io.Reader) (Together, error) {
	var all bytes.Buffer
	err := Files{Stdin: stdin}.each(path, func(_ string, text []byte) error {
		all.Write(text)
		all.WriteString("\n---\n")
		return nil
	})
	if err != nil {
		return Together{}, err
	}
	u, err := release.Order(all.String(), false)
	if err != nil {
		return Together{}, fmt.Errorf("%s: %w", path, err)
	}
	together, err := uninstall(u, namespace)
	if err == nil && len(together.Names) == 0 {
		err = fmt.Errorf("%s: no object in it that helm uninstall deletes", path)
	}
	return together, err
}

func uninstall(u release.Uninstall, namespace string) (Together, error) {
	together := Together{By: byHelm, Notes: u.Sentences()}
	known := map[Name]bool{}
	for place, objects := range u.Deletes {
		for _, object := range objects {
			name, err := nameOf(object, namespace)
			if err != nil {
				return Together{}, fmt.Errorf("object %d of the manifest: %w", len(together.Names)+1, err)
			}
			if !known[name] {
				known[name], name.Place = true, place
				together.Names = append(together.Names, name)
			}
		}
	}
	return together, nil
}
