package webhook

import (
	"github.com/termguard/termguard/config"
	"github.com/termguard/termguard/question"
)

// trustsObject tells whether annotations of the object of a request count.
func trustsObject(t config.Trust, r *question.Request) bool { return t.Place(r.Within()) }

// trustsPerson tells whether whoever makes a request is among the subjects.
func trustsPerson(t config.Trust, r *question.Request) bool {
	return t.Person(r.UserInfo.Username, r.UserInfo.Groups)
}
