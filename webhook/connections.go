package webhook

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// connections bounds the open connections, at most half of them without a request so far: a client that sends
// nothing displaces only such ones, its own first.
type connections struct {
	limit int

	mu           sync.Mutex
	open         map[net.Conn]listEntry
	unused, idle *list.List // of net.Conn, the longest idle first
}

// listEntry is zero while a request is being answered.
type listEntry struct {
	list    *list.List
	element *list.Element
}

func newConnections(limit int) *connections {
	return &connections{limit: limit, open: map[net.Conn]listEntry{}, unused: list.New(), idle: list.New()}
}

// track is for http.Server.ConnState.
func (c *connections) track(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry, ok := c.open[conn]
	if !ok && state != http.StateNew {
		return // closed here
	}
	if entry.list != nil {
		entry.list.Remove(entry.element)
	}
	switch state {
	case http.StateNew:
		c.open[conn] = listEntry{c.unused, c.unused.PushBack(conn)}
	case http.StateActive:
		c.open[conn] = listEntry{}
	case http.StateIdle:
		c.open[conn] = listEntry{c.idle, c.idle.PushBack(conn)}
	default:
		delete(c.open, conn)
	}
	switch {
	case c.unused.Len() > c.limit/2:
		c.closeFirst(c.unused)
	case len(c.open) <= c.limit:
	case c.idle.Len() > 0:
		c.closeFirst(c.idle)
	case c.unused.Len() > 0:
		c.closeFirst(c.unused)
	}
}

// The closing handshake of TLS could block.
func (c *connections) closeFirst(from *list.List) {
	conn := from.Remove(from.Front()).(net.Conn)
	delete(c.open, conn)
	if wrapped, ok := conn.(*tls.Conn); ok {
		conn = wrapped.NetConn()
	}
	conn.Close() // an error means: closed already
}
