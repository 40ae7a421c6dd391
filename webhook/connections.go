package webhook

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// connections bounds the open connections. At most half of them may be without a request so far: a client
// that opens connections and sends nothing displaces only such ones, its own first.
type connections struct {
	limit int

	mu          sync.Mutex
	open        map[net.Conn]place
	fresh, idle *list.List // of net.Conn, the longest idle first
}

// place of a connection; zero while a request is being answered.
type place struct {
	in *list.List
	at *list.Element
}

func newConnections(limit int) *connections {
	return &connections{limit: limit, open: map[net.Conn]place{}, fresh: list.New(), idle: list.New()}
}

// changed is for http.Server.ConnState.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was, known := c.open[conn]
	if !known && state != http.StateNew {
		return // it was closed here
	}
	if was.in != nil {
		was.in.Remove(was.at)
	}
	switch state {
	case http.StateNew:
		c.open[conn] = place{c.fresh, c.fresh.PushBack(conn)}
	case http.StateActive:
		c.open[conn] = place{}
	case http.StateIdle:
		c.open[conn] = place{c.idle, c.idle.PushBack(conn)}
	default:
		delete(c.open, conn)
	}
	switch {
	case c.fresh.Len() > c.limit/2:
		c.abandon(c.fresh)
	case len(c.open) <= c.limit:
	case c.idle.Len() > 0:
		c.abandon(c.idle)
	case c.fresh.Len() > 0:
		c.abandon(c.fresh)
	}
}

// abandon closes the first connection of a list, without the closing handshake of TLS.
func (c *connections) abandon(from *list.List) {
	conn := from.Remove(from.Front()).(net.Conn)
	delete(c.open, conn)
	if wrapped, ok := conn.(*tls.Conn); ok {
		conn = wrapped.NetConn()
	}
	conn.Close() // an error means that it is closed
}
