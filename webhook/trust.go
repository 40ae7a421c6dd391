package webhook

import (
	"github.com/termguard/termguard/config"
	"github.com/termguard/termguard/question"
)

// trustsObject reports whether annotations of the request's object count.
func trustsObject(t config.Trust, r *question.Request) bool { return t.Place(r.Within()) }

// trustsUser reports whether the user of a request is trusted.
func trustsUser(t config.Trust, r *question.Request) bool {
	return t.Person(r.UserInfo.Username, r.UserInfo.Groups)
}
