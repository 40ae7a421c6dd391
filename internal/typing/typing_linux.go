// Package typing provides a terminal with a typing user for tests.
package typing

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Open returns a terminal that reads lines written to keys.
func Open() (terminal, keys *os.File, err error) {
	if keys, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, nil, fmt.Errorf("open a terminal: %w", err)
	}
	var number int
	if err = unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0); err == nil {
		number, err = unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	}
	if err == nil {
		terminal, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		keys.Close()
		return nil, nil, fmt.Errorf("open a terminal: %w", err)
	}
	return terminal, keys, nil
}
