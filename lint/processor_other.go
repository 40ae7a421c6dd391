//go:build !unix

package lint

import "time"

// processorTime returns the wall clock on systems without processor times.
func processorTime() time.Time { return time.Now() }
