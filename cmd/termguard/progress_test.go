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
		p := newProgress(nil)
		p.out = &out // as on a terminal
		p.show(1, 3)
		if p.clear(); out.Len() > 0 {
			t.Errorf("nobody waits yet: %q", out.String())
		}
		time.Sleep(time.Second)
		p.show(2, 3)
		p.clear()
		if want := clearLine + "reading the cluster: 2 of 3 resources" + clearLine; out.String() != want {
			t.Errorf("got %q, want %q", out.String(), want)
		}
		quiet := newProgress(&out)
		time.Sleep(time.Minute)
		out.Reset()
		quiet.show(1, 3)
		if quiet.clear(); out.Len() > 0 {
			t.Errorf("what is no terminal shows %q", out.String())
		}
	})
}
