// Package release reads Helm's record of a release (Helm 3 and 4), and finds what helm uninstall deletes and
// keeps. Sources: helm.sh/helm/v4 v4.3.1, pkg/storage/driver and pkg/action/uninstall.go.
package release

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxRecord bounds an unpacked record, in bytes: a Secret holds 1 MiB of it, packed to a tenth or so.
const maxRecord = 64 << 20

// Release is the part of Helm's record that an uninstall depends on.
type Release struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	// Version is the revision.
	Version int `json:"version"`
	Info    struct {
		Status string `json:"status"`
	} `json:"info"`
	// ApplyMethod is only set by Helm 4.
	ApplyMethod string `json:"apply_method"`
	// Manifest is rendered, without hooks.
	Manifest string `json:"manifest"`
	Hooks    []Hook `json:"hooks"`
	Chart    struct {
		Files []struct {
			Name string `json:"name"`
			Data []byte `json:"data"`
		} `json:"files"`
	} `json:"chart"`
}

// Hook is an object that Helm creates before or after an operation.
type Hook struct {
	Name           string   `json:"name"`
	Kind           string   `json:"kind"`
	Events         []string `json:"events"`
	DeletePolicies []string `json:"delete_policies"`
}

// Decode decodes a record's "release": base64 of JSON, gzipped in all but very old records.
func Decode(value []byte) (*Release, error) {
	record := make([]byte, base64.StdEncoding.DecodedLen(len(value)))
	n, err := base64.StdEncoding.Decode(record, value)
	if err != nil {
		return nil, fmt.Errorf("the record is damaged or cut off: %w", err)
	}
	record = record[:n]
	if bytes.HasPrefix(record, []byte{0x1f, 0x8b, 0x08}) {
		if record, err = unpack(record); err != nil {
			return nil, err
		}
	}
	var r Release
	if err := json.Unmarshal(record, &r); err != nil {
		return nil, fmt.Errorf("the record is damaged, or of a Helm that is neither 3 nor 4: %w", err)
	}
	if r.Name == "" || r.Version == 0 {
		return nil, errors.New("the record has no name or revision: it is of a Helm that is neither 3 nor 4")
	}
	return &r, nil
}

func unpack(record []byte) ([]byte, error) {
	packed, err := gzip.NewReader(bytes.NewReader(record))
	if err != nil {
		return nil, fmt.Errorf("the record is damaged: %w", err)
	}
	record, err = io.ReadAll(io.LimitReader(packed, maxRecord+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the record is damaged or cut off: %w", err)
	case len(record) > maxRecord:
		return nil, fmt.Errorf("the record is larger than %d MiB, unpacked: no chart is", maxRecord>>20)
	}
	return record, nil
}

func (r *Release) Uninstall() (Uninstall, error) {
	u, err := Order(r.Manifest, r.ApplyMethod != "")
	if err != nil {
		return Uninstall{}, err
	}
	u.Hooks = append(u.Hooks, r.Hooks...)
	for _, file := range r.Chart.Files {
		if !strings.HasPrefix(file.Name, "crds/") {
			continue
		}
		u.Definitions = append(u.Definitions, definitionsIn(string(file.Data))...)
	}
	return u, nil
}
