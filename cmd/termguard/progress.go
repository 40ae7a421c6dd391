package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// progress tells a person who waits for longer than a second how far it is.
type progress struct {
	mu    sync.Mutex
	out   io.Writer // nil where nobody looks
	began time.Time
	shown bool
	// what is told, of how many that are done and of how many there are.
	what string
}

// newProgress returns a progress that writes only to a terminal.
func newProgress(stderr io.Writer) *progress {
	p := &progress{began: time.Now(), what: "reading the cluster: %d of %d resources"}
	if file, ok := stderr.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		p.out = file
	}
	return p
}

// clearLine moves to the start of the line and erases it (ECMA-48, EL).
const clearLine = "\r\x1b[K"

func (p *progress) show(done, of int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out == nil || time.Since(p.began) < time.Second {
		return
	}
	p.shown = true
	fmt.Fprintf(p.out, clearLine+p.what, done, of)
}

func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.out, clearLine)
		p.shown = false
	}
}
