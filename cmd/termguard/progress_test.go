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
		told := func(p *progress, since time.Duration, want, reason string) {
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
		told(p, 900*time.Millisecond, "", "nobody waits yet")
		told(p, 200*time.Millisecond, clearLine+"reading the cluster: 1 of 3 …", "after a second without news")
		p.show(3, 3)
		p.show(2, 3)
		p.clear()
		told(p, 0, clearLine+"reading the cluster: 3 of 3 …"+clearLine+"reading the cluster: 3 of 3 …"+clearLine, "it never goes back")
		uncounted := startProgress(&out, "reading manifests", time.Now())
		told(uncounted, time.Minute, clearLine+"reading manifests …", "nobody counts")
		uncounted.clear()
		told(uncounted, 0, clearLine, "it is over")
		short := startProgress(&out, "reading", time.Now())
		short.clear()
		told(short, time.Minute, "", "it was over before anybody waited")
		second := startProgress(&out, "asking", time.Now().Add(-900*time.Millisecond))
		told(second, 110*time.Millisecond, clearLine+"asking …", "a second after the person began to wait, whatever was done before")
		second.clear()
		told(second, 0, clearLine, "it is over")
		late := startProgress(&out, "asking", time.Now().Add(-time.Hour))
		told(late, 90*time.Millisecond, "", "it may be over in a moment")
		told(late, 20*time.Millisecond, clearLine+"asking …", "it is not")
		late.clear()
	})
}

// Progress is for people at a terminal that takes it.
func TestProgressIsForPeople(t *testing.T) {
	var pipe bytes.Buffer
	if p := newProgress(&pipe, "reading"); p.out != nil {
		t.Error("it is told to a pipe")
	}
}
