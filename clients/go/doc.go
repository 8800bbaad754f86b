// Package nagaya is a client and worker for nagaya: long jobs, events, webhooks and ids.
//
// A [Client] registers jobs, waits for their results and reads events. A [Worker] claims jobs, runs handlers for
// them and reports how they ended. Read client.go and job.go first, then worker.go with leases.go and reports.go.
//
// Only the standard library is used.
package nagaya

// Version of this package.
const Version = "0.1.0"
