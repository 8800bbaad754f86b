/** What the API answers, in the API's own names. Unknown fields are kept, unknown words stay strings. */

export type State = "scheduled" | "waiting" | "running" | "succeeded" | "failed" | "cancelled" | (string & {});

export type EventKind =
  | "enqueued"
  | "started"
  | "progress"
  | "retrying"
  | "succeeded"
  | "failed"
  | "cancelled"
  | "lease_lost"
  | (string & {});

export type Backoff =
  | { kind: "exponential"; first_seconds: number; max_seconds: number }
  | { kind: "fixed"; delay_seconds: number }
  | { kind: "none" };

export interface Webhook {
  url: string;
  headers?: Record<string, string>;
  events?: EventKind[];
  format?: "standard" | "cloud_events";
}

export interface JobSummary {
  id: string;
  queue: string;
  tenant: string;
  state: State;
  kind?: string | null;
  priority: number;
  attempts: number;
  max_retries: number;
  tags?: string[];
  created_at: string;
  run_at?: string | null;
  ended_at?: string | null;
  error?: string | null;
}

export interface AttemptView {
  number: number;
  worker: string;
  started_at: string;
  ended_at?: string | null;
  end?: string | null;
  error?: string | null;
}

export interface JobView extends JobSummary {
  payload?: unknown;
  payload_base64?: string | null;
  payload_content_type?: string | null;
  result?: unknown;
  result_base64?: string | null;
  result_content_type?: string | null;
  progress?: { at: string; progress?: number | null; message?: string | null; data?: unknown } | null;
  timeout_seconds: number;
  depends_on: string[];
  pending_dependencies: string[];
  history: AttemptView[];
  explanation?: { reason: string; text: string } | null;
  traceparent?: string | null;
  [more: string]: unknown;
}

export interface JobPage {
  jobs: JobSummary[];
  next_cursor?: string | null;
}

/** A job that belongs to a worker until its lease ends. */
export interface ClaimedJob {
  id: string;
  token: string;
  queue: string;
  tenant: string;
  kind?: string | null;
  attempt: number;
  max_retries: number;
  priority: number;
  tags?: string[];
  created_at: string;
  lease_expires_at: string;
  timeout_seconds: number;
  payload?: unknown;
  payload_base64?: string | null;
  content_type?: string | null;
  traceparent?: string | null;
  tracestate?: string | null;
}

export interface EventView {
  /** Its position in the log. */
  id: string;
  kind: EventKind;
  job: string;
  queue: string;
  tenant: string;
  job_kind?: string;
  attempt: number;
  at: string;
  result?: unknown;
  result_base64?: string;
  result_content_type?: string;
  error?: string;
  progress?: { at: string; progress?: number | null; message?: string | null; data?: unknown };
  run_at?: string;
}

export interface ScheduleView {
  name: string;
  tenant: string;
  cron: string;
  time_zone: string;
  missed: string;
  paused: boolean;
  queue: string;
  kind?: string | null;
  payload?: unknown;
  created_at: string;
  next_run_at?: string | null;
  last_run_at?: string | null;
  refused?: string | null;
  refused_at?: string | null;
}

export interface QueueView {
  name: string;
  paused: boolean;
  depth: Record<string, number>;
  passed: Record<string, number>;
  settings: Record<string, unknown>;
  [more: string]: unknown;
}

export interface WhoAmI {
  tenant: string;
  scopes: string[];
  queues: string[];
  is_house: boolean;
  [more: string]: unknown;
}
