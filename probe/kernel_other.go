//go:build !linux

package probe

import (
	"errors"
	"os"
)

// Nodes run Linux; elsewhere these functions only let the command build.

func attributesOf(*os.File, string) (attributes, error) { return attributes{}, errors.ErrUnsupported }

func openBelow(*os.File, string, string) (*os.File, error) { return nil, errors.ErrUnsupported }

// DropPrivileges does nothing here.
func DropPrivileges(func(error)) error { return nil }

func spaceOf(string) (space, error) { return space{}, errors.ErrUnsupported }
