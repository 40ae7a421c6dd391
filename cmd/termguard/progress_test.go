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
		p := startProgress(&out, "reading the cluster") // as on a terminal
		p.show(1, 3)
		time.Sleep(900 * time.Millisecond)
		synctest.Wait()
		if out.Len() > 0 {
			t.Errorf("nobody waits yet: %q", out.String())
		}
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		if want := clearLine + "reading the cluster: 1 of 3 …"; out.String() != want {
			t.Errorf("after a second without news, got %q, want %q", out.String(), want)
		}
		out.Reset()
		p.show(3, 3)
		p.show(2, 3)
		p.clear()
		if want := clearLine + "reading the cluster: 3 of 3 …" + clearLine + "reading the cluster: 3 of 3 …" + clearLine; out.String() != want {
			t.Errorf("got %q, want %q", out.String(), want)
		}
		out.Reset()
		uncounted := startProgress(&out, "reading manifests")
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := clearLine + "reading manifests …"; out.String() != want {
			t.Errorf("got %q, want %q", out.String(), want)
		}
		uncounted.clear()
		out.Reset()
		short := startProgress(&out, "reading")
		short.clear()
		time.Sleep(time.Minute)
		synctest.Wait()
		if out.Len() > 0 {
			t.Errorf("what is over is told: %q", out.String())
		}
	})
}

// Progress is for people at a terminal that takes it.
func TestProgressIsForPeople(t *testing.T) {
	var pipe bytes.Buffer
	if p := newProgress(&pipe, "reading"); p.out != nil {
		t.Error("it is told to a pipe")
	}
}
