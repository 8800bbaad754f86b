/** A validator as [Standard Schema](https://standardschema.dev) defines it: zod, valibot, arktype and others are some. */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: ReadonlyArray<SchemaIssue> };

export interface SchemaIssue {
  readonly message: string;
  readonly path?: ReadonlyArray<PropertyKey | { readonly key: PropertyKey }> | undefined;
}

export type SchemaInput<S extends StandardSchema> = NonNullable<S["~standard"]["types"]>["input"];
export type SchemaOutput<S extends StandardSchema> = NonNullable<S["~standard"]["types"]>["output"];

/** What is wrong with a value, field by field. */
export class InvalidPayload extends Error {
  constructor(issues: ReadonlyArray<SchemaIssue>) {
    super(issues.map(line).join("; "));
    this.name = "InvalidPayload";
  }
}

function line(issue: SchemaIssue): string {
  const steps = (issue.path ?? []).map((step) => String(typeof step === "object" ? step.key : step));
  return steps.length === 0 ? issue.message : `${steps.join(".")}: ${issue.message}`;
}

export async function validate<Output>(schema: StandardSchema<unknown, Output>, value: unknown): Promise<Output> {
  const result = await schema["~standard"].validate(value);
  if (result.issues !== undefined) throw new InvalidPayload(result.issues);
  return result.value;
}
