package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func (r *release) publish(ctx context.Context, repository string) error {
	if err := r.describe(ctx); err != nil {
		return err
	}
	image, err := push(ctx, filepath.Join(r.out, imageOf(r.version)), repository, r.version)
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	fmt.Println(image)
	return nil
}

// The credentials are docker's, podman's or helm's; the result has the digest.
func push(ctx context.Context, archive, repository, version string) (string, error) {
	tag, err := name.NewTag(repository + ":" + version)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "termguard-image")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	if err := unpack(archive, dir); err != nil {
		return "", fmt.Errorf("read %s: %w", archive, err)
	}
	outer, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", archive, err)
	}
	manifest, err := outer.IndexManifest()
	if err != nil {
		return "", fmt.Errorf("read %s: %w", archive, err)
	}
	if len(manifest.Manifests) != 1 {
		return "", fmt.Errorf("read %s: want one image, got %d", archive, len(manifest.Manifests))
	}
	digest := manifest.Manifests[0].Digest
	index, err := outer.ImageIndex(digest)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", archive, err)
	}
	if err := remote.WriteIndex(tag, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return "", fmt.Errorf("push %s (logged in there? docker login %s): %w", tag, tag.RegistryStr(), err)
	}
	return repository + "@" + digest.String(), nil
}

func unpack(archive, dir string) error {
	in, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer in.Close()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for files := tar.NewReader(in); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := root.MkdirAll(filepath.Dir(header.Name), 0o755); err != nil {
			return err
		}
		out, err := root.Create(header.Name)
		if err != nil {
			return err
		}
		if _, err := io.Copy(out, files); err != nil {
			return errors.Join(err, out.Close())
		}
		if err := out.Close(); err != nil {
			return err
		}
	}
}
