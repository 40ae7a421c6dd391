//go:build !linux

package probe

import (
	"errors"
	"os"
)

// Nodes run Linux; elsewhere these functions only let the command build.

func attributesOf(*os.File, string) (attributes, error) { return attributes{}, errors.ErrUnsupported }

func openBelow(*os.File, string, string) (*os.File, error) { return nil, errors.ErrUnsupported }

// Yield and Drop work on Linux only.
func Yield() error { return errors.ErrUnsupported }

func Drop() error { return errors.ErrUnsupported }

func spaceOf(string) (space, error) { return space{}, errors.ErrUnsupported }
