package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"time"
)

// progress shows after a second that the program works.
type progress struct {
	mu       sync.Mutex
	out      io.Writer // nil without a terminal
	what     string
	going    string // end of the line
	done, of int    // 0 of 0 if not counted
	shown    bool
	timer    *time.Timer
}

// began is the start of the first task, as each of several may take less than a second.
var began = time.Now()

const (
	soon   = time.Second            // after it, a wait shows its progress
	moment = 100 * time.Millisecond // shorter tasks are not worth a line
)

// newProgress shows a task on a terminal until clear.
func newProgress(stderr io.Writer, what string) *progress {
	if !colored(stderr) { // without colours, lines must not change either
		stderr = nil
	}
	p := startProgress(stderr, what, began)
	if !drawsBoxes(runtime.GOOS, os.Getenv) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.going = " ..."
	}
	return p
}

func startProgress(out io.Writer, what string, since time.Time) *progress {
	p := &progress{out: out, what: what, going: " …"}
	if out != nil {
		p.timer = time.AfterFunc(max(soon-time.Since(since), moment), func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.out != nil {
				p.shown = true
				p.write()
			}
		})
	}
	return p
}

// clearLine moves to the start of the line and erases it (ECMA-48, EL).
const clearLine = "\r\x1b[K"

func (p *progress) write() {
	fmt.Fprint(p.out, clearLine+p.what)
	if p.of > 0 {
		fmt.Fprintf(p.out, ": %d of %d", p.done, p.of)
	}
	fmt.Fprint(p.out, p.going)
}

func (p *progress) show(done, of int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done, p.of = max(p.done, done), of; p.shown { // parallel counts arrive out of order
		p.write()
	}
}

func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
	if p.shown {
		fmt.Fprint(p.out, clearLine)
	}
	p.shown, p.out = false, nil
}
