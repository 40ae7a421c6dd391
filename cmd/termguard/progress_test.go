package main

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"
)

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		shows := func(p *progress, since time.Duration, want, reason string) {
			t.Helper()
			time.Sleep(since)
			synctest.Wait()
			p.mu.Lock() // its timer writes
			defer p.mu.Unlock()
			if out.String() != want {
				t.Errorf("%s: got %q, want %q", reason, out.String(), want)
			}
			out.Reset()
		}
		p := startProgress(&out, "reading the cluster", time.Now()) // as on a terminal
		p.show(1, 3)
		shows(p, 900*time.Millisecond, "", "nobody waits yet")
		shows(p, 200*time.Millisecond, clearLine+"reading the cluster: 1 of 3 …", "after a second without news")
		p.show(3, 3)
		p.show(2, 3)
		p.clear()
		shows(p, 0, clearLine+"reading the cluster: 3 of 3 …"+clearLine+"reading the cluster: 3 of 3 …"+clearLine, "it never goes back")
		uncounted := startProgress(&out, "reading manifests", time.Now())
		shows(uncounted, time.Minute, clearLine+"reading manifests …", "nobody counts")
		uncounted.clear()
		shows(uncounted, 0, clearLine, "it is over")
		short := startProgress(&out, "reading", time.Now())
		short.clear()
		shows(short, time.Minute, "", "it was over before anybody waited")
		second := startProgress(&out, "asking", time.Now().Add(-900*time.Millisecond))
		shows(second, 110*time.Millisecond, clearLine+"asking …", "a second after the person began to wait, whatever was done before")
		second.clear()
		shows(second, 0, clearLine, "it is over")
		late := startProgress(&out, "asking", time.Now().Add(-time.Hour))
		shows(late, 90*time.Millisecond, "", "it may be over in a moment")
		shows(late, 20*time.Millisecond, clearLine+"asking …", "it is not")
		late.clear()
	})
}

// Progress is shown only on a terminal that can redraw a line.
func TestProgressIsForPeople(t *testing.T) {
	var pipe bytes.Buffer
	if p := newProgress(&pipe, "reading"); p.out != nil {
		t.Error("progress is written to a pipe")
	}
}
